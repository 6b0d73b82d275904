"""A soak's records: each names its producer and sequence and carries a checksum of its bytes."""

from __future__ import annotations

import random
import struct
from typing import Final

from crc32c import crc32c

_IDS: Final = struct.Struct(">IIQ")
"""Producer, partition and sequence within both."""
_CRC: Final = struct.Struct(">I")
HEADER_BYTES: Final = _IDS.size + _CRC.size
FILLER_BYTES: Final = 1 << 16

SUM_MASK: Final = (1 << 64) - 1


class DamagedRecord(Exception):
    """The bytes are not those that a soak's producer made."""


class RecordMaker:
    """Makes records of one size whose filling differs from record to record."""

    def __init__(self, producer: int, record_bytes: int, seed: int) -> None:
        self._producer = producer
        self._filling_bytes = max(0, record_bytes - HEADER_BYTES)
        chance = random.Random(seed * 1_000_003 + producer)
        self._filler = chance.randbytes(FILLER_BYTES + self._filling_bytes)

    def make(self, partition: int, sequence: int) -> bytes:
        """The record of this sequence; always the same bytes."""
        ids = _IDS.pack(self._producer, partition, sequence)
        at = sequence * 131 % FILLER_BYTES
        filling = self._filler[at : at + self._filling_bytes]
        return ids + _CRC.pack(crc32c(filling, crc32c(ids))) + filling


def parse(value: bytes | None) -> tuple[int, int, int, int]:
    """Producer, partition, sequence and checksum of an intact record; DamagedRecord otherwise."""
    if value is None or len(value) < HEADER_BYTES:
        raise DamagedRecord(f"a record of {0 if value is None else len(value)} bytes")
    producer, partition, sequence = _IDS.unpack_from(value)
    (stored,) = _CRC.unpack_from(value, _IDS.size)
    actual = crc32c(value[HEADER_BYTES:], crc32c(value[: _IDS.size]))
    if stored != actual:
        raise DamagedRecord(f"checksum {stored:08x}, the bytes give {actual:08x}")
    return producer, partition, sequence, stored


def fingerprint(producer: int, sequence: int, offset: int, checksum: int) -> int:
    """What one record at one offset adds to a sum; equal sums mean equal sets of records."""
    # The hash of a tuple of integers is the same in every process of one Python.
    return hash((producer, sequence, offset, checksum)) & SUM_MASK
