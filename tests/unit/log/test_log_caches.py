"""Caches are bounded, keep the newest version, and forget what changed."""

from __future__ import annotations

from towpath.log.object.entries import Entry, decode_at
from towpath.log.object.index_cache import IndexCache
from towpath.log.object.range_cache import ENTRY_OVERHEAD_BYTES, RangeCache
from towpath.metadata.keys import streams
from towpath.metadata.proto import index_pb2
from towpath.observe.metrics import Metrics


def entry(stream_id: int, start: int, end: int, version: int = 1) -> Entry:
    message = index_pb2.IndexEntry(version=1, file_type=index_pb2.WAL, record_count=end - start)
    message.wal.batches.add(start_offset_delta=0, last_offset_delta=end - start - 1, length=10)
    return decode_at(streams.index_entry(stream_id, end, end * 10), version, message)


def cache(max_bytes: int = 1 << 20) -> IndexCache:
    return IndexCache(max_bytes, Metrics())


def test_an_offset_finds_the_entry_that_contains_it() -> None:
    index = cache()
    index.add(entry(1, 10, 20))
    index.add(entry(1, 0, 10))
    index.add(entry(2, 0, 5))
    found = index.find(1, 9)
    assert found is not None
    assert (found.start, found.end) == (0, 10)
    found = index.find(1, 10)
    assert found is not None
    assert (found.start, found.end) == (10, 20)
    assert index.find(1, 20) is None
    assert index.find(3, 0) is None


def test_a_hole_in_the_cache_is_a_miss_and_not_the_next_entry() -> None:
    index = cache()
    index.add(entry(1, 0, 5))
    index.add(entry(1, 10, 20))
    assert index.find(1, 7) is None


def test_a_change_of_the_key_removes_the_older_version_only() -> None:
    index = cache()
    index.add(entry(1, 0, 10, version=5))
    index.changed(streams.index_entry(1, 10, 100), 5)
    assert index.find(1, 0) is not None
    index.changed(streams.index_entry(1, 10, 100), 6)
    assert index.find(1, 0) is None
    index.add(entry(1, 0, 10, version=7))
    index.changed(streams.index_entry(1, 10, 100), None)
    assert index.find(1, 0) is None


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    index = cache()
    index.add(entry(1, 0, 10, version=5))
    index.add(entry(1, 3, 10, version=4))
    found = index.find(1, 0)
    assert found is not None
    assert found.version == 5


def test_the_index_cache_stays_within_its_bytes() -> None:
    one = entry(1, 0, 1).size_bytes
    index = cache(max_bytes=3 * one)
    for offset in range(10):
        index.add(entry(1, offset, offset + 1))
    assert [offset for offset in range(10) if index.find(1, offset) is not None] == [7, 8, 9]


def test_the_range_cache_drops_the_least_recently_used() -> None:
    ranges = RangeCache(3 * (10 + ENTRY_OVERHEAD_BYTES), Metrics())
    for position in range(3):
        ranges.add(b"w", position, bytes(10))
    assert ranges.get(b"w", 0) is not None
    ranges.add(b"w", 3, bytes(10))
    assert ranges.get(b"w", 1) is None
    assert ranges.get(b"w", 0) is not None
    assert ranges.get(b"v", 0) is None


def test_a_batch_larger_than_the_range_cache_is_not_kept() -> None:
    ranges = RangeCache(100, Metrics())
    ranges.add(b"w", 0, bytes(1_000))
    assert ranges.get(b"w", 0) is None
