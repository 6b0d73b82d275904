"""Valid bytes for each target: what mutations, and a coverage-guided fuzzer, start from."""

from __future__ import annotations

import struct
import uuid

from tests.faults.fuzz.seeds import Seed, batch, seeds
from tests.faults.fuzz.targets import READABLE

from towpath.log.object.wal_format import encode_wal
from towpath.records import compression
from towpath.records.batch import BatchInfo

REGRESSIONS = [
    bytes([compression.ZSTD])
    + bytes.fromhex("28b52ffd ffffffffffffffff60986500010000000100 00004bffbfffffffff01"),
    bytes([compression.ZSTD])
    + bytes.fromhex("28b52ffd e0 feffffffffffffff 510000 30313233343536373839"),
]
"""Inputs that once got out as another exception than the known one: zstd frames whose content size
is a number that the library takes for its error code."""


def corpus() -> dict[str, list[bytes]]:
    """Valid inputs by the name of the target."""
    batches = [batch(codec) for codec in range(len(compression.NAMES))]
    plain = b"some text that repeats, some text that repeats" * 20
    packed = [
        bytes([codec]) + compression.compress(codec, plain)
        for codec in range(len(compression.NAMES))
    ]
    return {
        "codec": [_chosen(seed) for seed in seeds()],
        "batch": batches,
        "sealed-batch": batches,
        "decompress": [*packed, *REGRESSIONS],
        "wal": [_wal(batches[:1]), _wal(batches[:3])],
    }


def _chosen(seed: Seed) -> bytes:
    at = READABLE.index((seed.api.request_type, seed.version))
    return struct.pack(">H", at) + seed.body


def _wal(batches: list[bytes]) -> bytes:
    chunks = [
        ((1 << 20) + number, [BatchInfo(data, 5, 1_700_000_000_000, 1_700_000_000_000)] * 2)
        for number, data in enumerate(batches)
    ]
    return b"".join(encode_wal(uuid.UUID(int=7), 0, 1_700_000_000_000, chunks).parts)
