"""Kafka's default partitioner: murmur2 of the key, as the Java client computes it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def key_partitions(keys: pa.Array, partitions: int) -> NDArray[np.int32]:
    """The partition of each key of a binary column; what a null gets has no meaning. Loads
    numba when it is first called."""
    from towpath.records.kernels.murmur2 import partitions_of

    if keys.type != pa.binary():
        raise ValueError(f"keys are of {keys.type}, not {pa.binary()}")
    found = np.zeros(len(keys), np.int32)
    if not len(keys):
        return found
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(memoryview(offsets).toreadonly(), np.int32)
    content = b"" if data is None else memoryview(data).toreadonly()
    partitions_of(
        bounds[keys.offset : keys.offset + len(keys) + 1],
        np.frombuffer(content, np.uint8),
        partitions,
        found,
    )
    return found
