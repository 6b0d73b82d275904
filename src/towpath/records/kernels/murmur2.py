"""The compiled murmur2 hash of Kafka's default partitioner, over a column of keys."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from towpath.records.kernels.jit import kernel

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]

SEED: Final = np.uint32(0x9747_B28C)
FACTOR: Final = np.uint32(0x5BD1_E995)
POSITIVE: Final = np.uint32(0x7FFF_FFFF)


@kernel
def murmur2(data: Bytes, start: int, end: int) -> np.uint32:
    """The hash of the bytes `[start, end)`."""
    value = SEED ^ np.uint32(end - start)
    at = start
    while end - at >= 4:
        word = np.uint32(data[at])
        word |= np.uint32(data[at + 1]) << np.uint32(8)
        word |= np.uint32(data[at + 2]) << np.uint32(16)
        word |= np.uint32(data[at + 3]) << np.uint32(24)
        word = np.uint32(word * FACTOR)
        word ^= word >> np.uint32(24)
        word = np.uint32(word * FACTOR)
        value = np.uint32(value * FACTOR) ^ word
        at += 4
    if end > at:
        for index in range(end - at):
            value ^= np.uint32(data[at + index]) << np.uint32(8 * index)
        value = np.uint32(value * FACTOR)
    value ^= value >> np.uint32(13)
    value = np.uint32(value * FACTOR)
    value ^= value >> np.uint32(15)
    return np.uint32(value)


@kernel
def partitions_of(offsets: Int32s, data: Bytes, partitions: int, found: Int32s) -> None:
    """The partition of each key. What a null gets has no meaning."""
    for row in range(len(found)):
        value = murmur2(data, offsets[row], offsets[row + 1])
        found[row] = int(value & POSITIVE) % partitions
