"""Record batches of format 2, uncompressed, made and read with `struct`: the harness's own."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import crc32c

HEADER_BYTES = 61
MAGIC = 2


def encode_batch(
    values: list[bytes],
    *,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    first_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """A batch of records with these values, null keys and no headers."""
    records = b"".join(_record(delta, value) for delta, value in enumerate(values))
    tail = (
        struct.pack(
            ">hiqqqhii",
            attributes,
            len(values) - 1,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            first_sequence,
            len(values),
        )
        + records
    )
    head = struct.pack(">ibI", 0, MAGIC, crc32c.crc32c(tail))
    return struct.pack(">qi", 0, len(head) + len(tail)) + head + tail


def decode_batches(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and value of every record. A batch cut off at the end, as brokers may do, ends it."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        base_offset, size = struct.unpack_from(">qi", data, at)
        if at + 12 + size > len(data):
            return
        _check(data[at : at + 12 + size])
        (count,) = struct.unpack_from(">i", data, at + 57)
        place = at + HEADER_BYTES
        for _ in range(count):
            place, delta, value = _read_record(data, place)
            yield base_offset + delta, value
        at += 12 + size


def _check(batch: bytes) -> None:
    magic, crc, attributes = struct.unpack_from(">bIh", batch, 16)
    assert magic == MAGIC
    assert crc == crc32c.crc32c(batch[21:]), "the batch's CRC is wrong"
    assert attributes & 7 == 0, "this reader takes uncompressed batches only"


def _record(delta: int, value: bytes) -> bytes:
    body = b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(len(value)) + value
    body += _varint(0)
    return _varint(len(body)) + body


def _read_record(data: bytes, at: int) -> tuple[int, int, bytes]:
    size, at = _read_varint(data, at)
    end = at + size
    _, at = _read_varint(data, at + 1)
    delta, at = _read_varint(data, at)
    key_size, at = _read_varint(data, at)
    value_size, at = _read_varint(data, at + max(key_size, 0))
    return end, delta, data[at : at + value_size]


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    shift = zigzag = 0
    while True:
        byte = data[at]
        at += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), at
        shift += 7
