"""Records are found by timestamp, whatever the compression and the timestamp type."""

from __future__ import annotations

import pytest

from towpath.errors import InvalidBatch
from towpath.records import build, compression
from towpath.records.batch import ATTRIBUTE_LOG_APPEND_TIME
from towpath.records.build import NewRecord, build_batch, encode_record
from towpath.records.timestamps import first_at_or_after, max_timestamp

CODECS = range(len(compression.NAMES))
STAMPS = [100, 50, 300, -1, 300, 200]


def sample(codec: int) -> bytes:
    return build_batch([NewRecord(b"v", b"k", stamp) for stamp in STAMPS], codec=codec)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [(0, (1000, 100)), (100, (1000, 100)), (101, (1002, 300)), (300, (1002, 300)), (301, None)],
)
def test_first_at_or_after(codec: int, timestamp_ms: int, expected: tuple[int, int] | None) -> None:
    assert first_at_or_after(sample(codec), 1000, timestamp_ms) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_max_timestamp_is_the_first_of_equals(codec: int) -> None:
    assert max_timestamp(sample(codec), 1000) == (1002, 300)


def test_records_below_the_log_start_do_not_count() -> None:
    batch = sample(compression.NONE)
    assert first_at_or_after(batch, 1000, 0, from_offset=1001) == (1001, 50)
    assert first_at_or_after(batch, 1000, 300, from_offset=1003) == (1004, 300)
    assert max_timestamp(batch, 1000, from_offset=1005) == (1005, 200)
    assert max_timestamp(batch, 1000, from_offset=1006) is None


def test_base_offset_in_the_bytes_does_not_matter() -> None:
    batch = build_batch([NewRecord(b"v", timestamp_ms=5)], base_offset=77)
    assert first_at_or_after(batch, 3, 5) == (3, 5)


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_gives_every_record_the_same(codec: int) -> None:
    payload = b"".join(encode_record(NewRecord(b"v"), i, stamp) for i, stamp in enumerate(STAMPS))
    batch = build.seal(
        compression.compress(codec, payload),
        attributes=codec | ATTRIBUTE_LOG_APPEND_TIME,
        record_count=len(STAMPS),
        last_offset_delta=len(STAMPS) - 1,
        base_timestamp_ms=1,
        max_timestamp_ms=5000,
    )
    assert first_at_or_after(batch, 10, 400) == (10, 5000)
    assert first_at_or_after(batch, 10, 5001) is None
    assert max_timestamp(batch, 10) == (10, 5000)


def test_sparse_offsets_are_taken_from_the_records() -> None:
    payload = encode_record(NewRecord(b"a"), 2, 5) + encode_record(NewRecord(b"b"), 9, 7)
    batch = build.seal(payload, record_count=2, last_offset_delta=9)
    assert first_at_or_after(batch, 100, 0) == (102, 5)
    assert max_timestamp(batch, 100) == (109, 7)


def test_empty_batch_has_none() -> None:
    batch = build.empty_batch(5, 4, timestamp_ms=99)
    assert first_at_or_after(batch, 5, 0) is None
    assert max_timestamp(batch, 5) is None


def test_damaged_batch_is_refused() -> None:
    with pytest.raises(InvalidBatch):
        max_timestamp(build.seal(b"\x80", record_count=1, last_offset_delta=0), 0)


def test_negative_record_length_is_refused() -> None:
    payload = build.varint(-6) + b"\x00\x00\x00\x01\x01\x00"
    with pytest.raises(InvalidBatch):
        max_timestamp(build.seal(payload, record_count=1, last_offset_delta=0), 0)
