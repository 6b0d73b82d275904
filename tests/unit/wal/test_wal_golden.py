"""The checked-in WAL object is what the encoder writes, byte for byte, and what its README derives.

If this fails, the format has changed: objects in users' buckets would no longer be readable.
"""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

from towpath.log.object.wal_format import decode_wal, encode_wal
from towpath.records.batch import BatchInfo

GOLDEN = bytes.fromhex((Path(__file__).parent / "golden" / "wal-v1.hex").read_text())
WAL_ID = uuid.UUID("01234567-89ab-4def-8123-456700000009")
DOMAIN = 3
CREATED_AT_MS = 1_700_000_000_123
ORDERS_0 = 5 << 20
ORDERS_1 = 5 << 20 | 1


def crc32c_by_hand(data: bytes) -> int:
    """Castagnoli's CRC bit by bit, so that the library is not both judge and party."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def batch_by_hand(base_offset: int, timestamp_ms: int, *values: bytes) -> bytes:
    """An uncompressed batch of short records without key or headers, each of one timestamp."""
    records = b""
    for delta, value in enumerate(values):
        # attributes, timestamp delta 0, offset delta, null key, value, no headers
        body = bytes([0, 0, delta * 2, 1, len(value) * 2]) + value + b"\x00"
        records += bytes([len(body) * 2]) + body
    crced = struct.pack(
        ">hiqqqhii",
        0,
        len(values) - 1,
        timestamp_ms,
        timestamp_ms,
        -1,
        -1,
        -1,
        len(values),
    )
    crced += records
    head = struct.pack(">qiibI", base_offset, 9 + len(crced), -1, 2, crc32c_by_hand(crced))
    return head + crced


FIRST = batch_by_hand(0, 1_700_000_000_000, b"hello")
SECOND = batch_by_hand(0, 1_700_000_000_050, b"a", b"b")
THIRD = batch_by_hand(0, 1_700_000_000_020, b"towpath")


def object_by_hand() -> bytes:
    chunk_0 = struct.pack(">I", len(FIRST)) + FIRST + struct.pack(">I", len(SECOND)) + SECOND
    chunk_1 = struct.pack(">I", len(THIRD)) + THIRD
    index_at = 49 + len(chunk_0) + len(chunk_1)
    header = b"DRAYWO1" + struct.pack(">H", 1) + WAL_ID.bytes
    header += struct.pack(">IqIQ", DOMAIN, CREATED_AT_MS, 2, index_at)
    index = struct.pack(
        ">QQIIIqq",
        ORDERS_0,
        49,
        len(chunk_0),
        3,
        2,
        1_700_000_000_000,
        1_700_000_000_050,
    ) + struct.pack(
        ">QQIIIqq",
        ORDERS_1,
        49 + len(chunk_0),
        len(chunk_1),
        1,
        1,
        1_700_000_000_020,
        1_700_000_000_020,
    )
    content = header + chunk_0 + chunk_1 + index
    return content + struct.pack(">I", crc32c_by_hand(content))


def test_the_golden_object_is_what_the_format_says() -> None:
    assert object_by_hand() == GOLDEN


def test_the_encoder_writes_the_golden_object() -> None:
    image = encode_wal(
        WAL_ID,
        DOMAIN,
        CREATED_AT_MS,
        [
            (ORDERS_1, [BatchInfo(THIRD, 1, 1_700_000_000_020, 1_700_000_000_020)]),
            (
                ORDERS_0,
                [
                    BatchInfo(FIRST, 1, 1_700_000_000_000, 1_700_000_000_000),
                    BatchInfo(SECOND, 2, 1_700_000_000_050, 1_700_000_000_050),
                ],
            ),
        ],
    )
    assert b"".join(image.parts) == GOLDEN


def test_the_decoder_reads_the_golden_object() -> None:
    decoded = decode_wal(GOLDEN)
    assert decoded.header.wal_id == WAL_ID
    assert decoded.header.domain == DOMAIN
    assert decoded.header.created_at_ms == CREATED_AT_MS
    assert [chunk.index.stream_id for chunk in decoded.chunks] == [ORDERS_0, ORDERS_1]
    assert [[bytes(batch) for batch in chunk.batches] for chunk in decoded.chunks] == [
        [FIRST, SECOND],
        [THIRD],
    ]
