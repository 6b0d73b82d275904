"""A stored record batch, checked and decompressed: the first step of decoding it."""

from __future__ import annotations

from typing import Final, NamedTuple

from crc32c import crc32c

from towpath.errors import BatchError, CorruptBatch
from towpath.objects.store import Buffer
from towpath.records import compression
from towpath.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE_BYTES,
    MAGIC,
    BatchHeader,
    parse_header,
)

RECORD_SIZE_BYTES_MIN: Final = 7
"""A record has six numbers and a byte of attributes, whatever it holds."""


class OpenBatch(NamedTuple):
    """A batch whose checksum is right, its records decompressed. `payload` is a view of the stored
    bytes if they were not compressed."""

    base_offset: int
    header: BatchHeader
    payload: Buffer


def open_batch(batch: Buffer, base_offset: int) -> OpenBatch:
    """Check a whole batch's length, magic and CRC and decompress it; CorruptBatch if that fails."""
    if len(batch) < HEADER_SIZE_BYTES:
        raise corrupt(base_offset, f"has {len(batch)} bytes, less than a header")
    header = parse_header(batch)
    if header.size_bytes != len(batch):
        raise corrupt(base_offset, f"has {len(batch)} bytes, its header says {header.size_bytes}")
    if header.magic != MAGIC:
        raise corrupt(base_offset, f"has magic {header.magic}, not {MAGIC}")
    view = memoryview(batch)
    actual_crc = crc32c(view[ATTRIBUTES_AT:])
    if header.crc != actual_crc:
        raise corrupt(
            base_offset, f"has the checksum {header.crc:08x}, its bytes give {actual_crc:08x}"
        )
    payload = _decompress(view[HEADER_SIZE_BYTES:], header, base_offset)
    if not 0 <= header.record_count <= len(payload) // RECORD_SIZE_BYTES_MIN:
        raise corrupt(
            base_offset, f"has {header.record_count} records in {len(payload)} bytes, it says"
        )
    return OpenBatch(base_offset, header, payload)


def corrupt(base_offset: int, problem: str) -> CorruptBatch:
    """What is wrong with the batch at this offset."""
    return CorruptBatch(f"the batch at offset {base_offset} {problem}")


def _decompress(payload: memoryview, header: BatchHeader, base_offset: int) -> Buffer:
    if not header.record_count:
        # What an empty batch keeps behind its header means nothing, as when it is walked.
        return b""
    try:
        return compression.decompress(header.compression, payload, compression.STORED_BYTES_MAX)
    except BatchError as error:
        raise corrupt(base_offset, f"does not decompress: {error}") from error
