"""The walk over a batch's (decompressed) records, in Python.

`walk` judges records on produce. `kernels/walk.py` does the same, compiled, and the two agree on
every input, also in what they call wrong and where; a test holds them against each other.
`iterate` and `scan_timestamps` read the records of a batch that was judged before.

A record is: length varint, attributes i8 (ignored), timestamp delta varlong, offset delta varint,
key length varint and key, value length varint and value, header count varint, and per header key
length, key, value length, value. All numbers are zigzag. A negative length means null, as in Java.
Unlike Java, a varint whose value does not fit its 32 or 64 bits is refused instead of cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from towpath.errors import InvalidBatch
from towpath.objects.store import Buffer
from towpath.records import compression
from towpath.records.batch import (
    ATTRIBUTE_LOG_APPEND_TIME,
    HEADER_SIZE_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    parse_header,
)

# What a walk can find wrong. Plain numbers, because the compiled walk returns them too.
OK: Final = 0
CUT_OFF: Final = 1
BAD_VARINT: Final = 2
BAD_LENGTH: Final = 3
BAD_OFFSET_DELTA: Final = 4
BAD_HEADER_COUNT: Final = 5
NULL_HEADER_KEY: Final = 6
BAD_HEADER_KEY: Final = 7
LEFT_OVER: Final = 8
TIMESTAMP_OVERFLOW: Final = 9

REASONS: Final = (
    "is fine",
    "is cut off",
    "has a number that does not fit its type",
    "has a length that does not fit its fields",
    "has an offset delta that is not its place in the batch",
    "has an impossible number of headers",
    "has a header without a key",
    "has a header key that is not UTF-8",
    "is followed by bytes that belong to no record",
    "has a timestamp that does not fit 64 bits",
)

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)
BITS_32: Final = 32
BITS_64: Final = 64


class Walked(NamedTuple):
    """What a walk found. The numbers hold only if `code` is OK.

    Records without a key, where keys are required, count in `keyless` and in nothing else: a
    missing key hides the record's timestamp, as in Kafka.
    """

    code: int
    record: int
    """Which record is wrong; the record count if it is none of them."""
    min_timestamp_ms: int
    """INT64_MAX if no record counts."""
    max_timestamp_ms: int
    """INT64_MIN if no record counts."""
    min_dated_ms: int
    """The least timestamp of the records that have one (not -1); INT64_MAX if none has."""
    keyless: int


class _Wrong(Exception):
    """A record is wrong; carries the code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def walk(payload: Buffer, count: int, base_timestamp_ms: int, require_keys: bool) -> Walked:
    """Judge `count` records that shall fill `payload` exactly."""
    data = payload if isinstance(payload, bytes) else bytes(payload)
    at = 0
    index = 0
    keyless = 0
    low = low_dated = INT64_MAX
    high = INT64_MIN
    try:
        for index in range(count):
            at, timestamp_delta, has_key = _record(data, at, index)
            if require_keys and not has_key:
                keyless += 1
                continue
            timestamp = base_timestamp_ms + timestamp_delta
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise _Wrong(TIMESTAMP_OVERFLOW)
            if timestamp < low:
                low = timestamp
            if timestamp > high:
                high = timestamp
            if timestamp < low_dated and timestamp != NO_TIMESTAMP:
                low_dated = timestamp
    except _Wrong as wrong:
        return Walked(wrong.code, index, 0, 0, 0, 0)
    if at != len(data):
        return Walked(LEFT_OVER, count, 0, 0, 0, 0)
    return Walked(OK, count, low, high, low_dated, keyless)


def _record(data: bytes, at: int, index: int) -> tuple[int, int, bool]:
    """Check one record; its end, its timestamp delta and whether it has a key."""
    if at >= len(data):
        raise _Wrong(CUT_OFF)
    length, at = _number(data, at, len(data), BITS_32)
    end = at + length
    if length < 0:
        raise _Wrong(BAD_LENGTH)
    if end > len(data):
        raise _Wrong(CUT_OFF)
    timestamp_delta, at = _number(data, at + 1, end, BITS_64)
    offset_delta, at = _number(data, at, end, BITS_32)
    if offset_delta != index:
        raise _Wrong(BAD_OFFSET_DELTA)
    key_length, at = _number(data, at, end, BITS_32)
    if key_length > 0:
        at += key_length
    value_length, at = _number(data, at, end, BITS_32)
    if value_length > 0:
        at += value_length
    header_count, at = _number(data, at, end, BITS_32)
    if header_count:
        at = _headers(data, at, end, header_count)
    if at != end:
        raise _Wrong(BAD_LENGTH)
    return end, timestamp_delta, key_length >= 0


def _headers(data: bytes, at: int, end: int, count: int) -> int:
    """Check the headers; their end."""
    if count < 0 or count > end - at:
        raise _Wrong(BAD_HEADER_COUNT)
    for _ in range(count):
        key_length, at = _number(data, at, end, BITS_32)
        if key_length < 0:
            raise _Wrong(NULL_HEADER_KEY)
        if key_length > end - at:
            raise _Wrong(BAD_LENGTH)
        try:
            data[at : at + key_length].decode()
        except UnicodeDecodeError:
            raise _Wrong(BAD_HEADER_KEY) from None
        at += key_length
        value_length, at = _number(data, at, end, BITS_32)
        if value_length > 0:
            at += value_length
    return at


def _number(data: bytes, at: int, end: int, bits: int) -> tuple[int, int]:
    """The zigzag number at `at`, and where it ends, which is `end` at most."""
    if at >= end:
        raise _Wrong(BAD_LENGTH)
    byte = data[at]
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift >= bits:
            raise _Wrong(BAD_VARINT)
        if at >= end:
            raise _Wrong(BAD_LENGTH)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> bits:
        raise _Wrong(BAD_VARINT)
    return value >> 1 ^ -(value & 1), at


# Reading batches that were judged before


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch; its offset is the batch's base offset plus `offset_delta`."""

    offset_delta: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def iterate(
    batch: Buffer, decompressed_max_bytes: int = compression.STORED_BYTES_MAX
) -> Iterator[Record]:
    """The records of a whole batch, as copies. InvalidBatch or CorruptBatch if it is damaged."""
    return records_of(*_open(batch, decompressed_max_bytes))


def records_of(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """The same of a batch that is decompressed already."""
    at = 0
    for index in range(header.record_count):
        try:
            at, record = _read_record(data, at, header)
        except (_Wrong, UnicodeDecodeError) as error:
            raise InvalidBatch(f"record {index} is damaged") from error
        yield record
    if at != len(data):
        raise InvalidBatch("the last record is followed by bytes that belong to no record")


def scan_timestamps(
    batch: Buffer, decompressed_max_bytes: int = compression.STORED_BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """Offset delta and timestamp of each record, skipping over everything else."""
    header, data = _open(batch, decompressed_max_bytes)
    at = 0
    for index in range(header.record_count):
        try:
            length, at = _number(data, at, len(data), BITS_32)
            timestamp_delta, after = _number(data, at + 1, len(data), BITS_64)
            offset_delta, after = _number(data, after, len(data), BITS_32)
            if not after - at <= length <= len(data) - at:
                raise _Wrong(BAD_LENGTH)
        except _Wrong as error:
            raise InvalidBatch(f"record {index} is damaged") from error
        at += length
        yield offset_delta, _timestamp(header, timestamp_delta)


def _open(batch: Buffer, decompressed_max_bytes: int) -> tuple[BatchHeader, bytes]:
    header = parse_header(batch)
    compressed = memoryview(batch)[HEADER_SIZE_BYTES : header.size_bytes]
    if not header.record_count:
        return header, b""
    return header, bytes(
        compression.decompress(header.compression, compressed, decompressed_max_bytes)
    )


def _timestamp(header: BatchHeader, timestamp_delta: int) -> int:
    """With LogAppendTime every record has the batch's greatest timestamp."""
    if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        return header.max_timestamp_ms
    return header.base_timestamp_ms + timestamp_delta


def _read_record(data: bytes, at: int, header: BatchHeader) -> tuple[int, Record]:
    length, at = _number(data, at, len(data), BITS_32)
    end = at + length
    if length < 0 or end > len(data):
        raise _Wrong(CUT_OFF)
    timestamp_delta, at = _number(data, at + 1, end, BITS_64)
    offset_delta, at = _number(data, at, end, BITS_32)
    key, at = _nullable_bytes(data, at, end)
    value, at = _nullable_bytes(data, at, end)
    header_count, at = _number(data, at, end, BITS_32)
    if header_count < 0:
        raise _Wrong(BAD_HEADER_COUNT)
    headers = []
    for _ in range(header_count):
        name, at = _nullable_bytes(data, at, end)
        content, at = _nullable_bytes(data, at, end)
        if name is None:
            raise _Wrong(NULL_HEADER_KEY)
        headers.append((name.decode(), content))
    if at != end:
        raise _Wrong(BAD_LENGTH)
    timestamp_ms = _timestamp(header, timestamp_delta)
    return end, Record(offset_delta, timestamp_ms, key, value, tuple(headers))


def _nullable_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _number(data, at, end, BITS_32)
    if length < 0:
        return None, at
    if length > end - at:
        raise _Wrong(BAD_LENGTH)
    return data[at : at + length], at + length
