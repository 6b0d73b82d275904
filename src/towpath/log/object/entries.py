"""Index entries with absolute offsets, decoded from key and value once."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from towpath.metadata.keys import streams
from towpath.metadata.proto import index_pb2
from towpath.metadata.store import KeyValue

ENTRY_VERSION = 1
LEADER_EPOCH = 0
"""The object class has no leaders: the epoch is 0 everywhere."""
ENTRY_OVERHEAD_BYTES = 900
ROW_OVERHEAD_BYTES = 250
"""What an entry and each of its rows take in memory, about."""


class Row(NamedTuple):
    """One batch of a WAL chunk. `position` is its first byte's place in the object."""

    base_offset: int
    last_offset: int
    position: int
    length: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Entry:
    """`[start, end)` of a stream and where it lies. Without rows it holds no data (tombstone)."""

    stream_id: int
    key: str
    version: int
    start: int
    end: int
    cumulative_size: int
    created_at_ms: int
    max_timestamp_ms: int
    wal_id: bytes
    path: str
    chunk_length: int
    rows: tuple[Row, ...]
    last_offsets: tuple[int, ...]
    size_bytes: int
    """What the entry costs in a cache."""

    def first_row_at(self, offset: int) -> int:
        """The index of the first batch whose last offset is at least `offset`."""
        return bisect_left(self.last_offsets, offset)


class UnknownEntry(Exception):
    """An index entry was written by a newer release."""


def decode_value(value: bytes) -> index_pb2.IndexEntry:
    """The stored message, if this release knows its version."""
    message = index_pb2.IndexEntry.FromString(value)
    if message.version != ENTRY_VERSION:
        raise UnknownEntry(f"index entry has version {message.version}")
    return message


def decode(found: KeyValue) -> Entry:
    """The entry that a key and its value describe."""
    return decode_at(found.key, found.version, decode_value(found.value))


def decode_at(key: str, version: int, message: index_pb2.IndexEntry) -> Entry:
    """The entry of a decoded message under a key."""
    stream_id, end, cumulative_size = streams.parse_index_entry(key)
    start = end - message.record_count
    if message.file_type not in (index_pb2.WAL, index_pb2.TOMBSTONE):
        raise UnknownEntry(f"index entry {key} has file type {message.file_type}")
    wal = message.wal
    rows = tuple(
        Row(
            start + row.start_offset_delta,
            start + row.last_offset_delta,
            wal.chunk_offset + row.offset_in_chunk,
            row.length,
            row.max_timestamp_ms,
        )
        for row in wal.batches
    )
    return Entry(
        stream_id=stream_id,
        key=key,
        version=version,
        start=start,
        end=end,
        cumulative_size=cumulative_size,
        created_at_ms=message.created_at_ms,
        max_timestamp_ms=message.max_timestamp_ms,
        wal_id=wal.wal_id,
        path=wal.path,
        chunk_length=wal.chunk_length,
        rows=rows,
        last_offsets=tuple(row.last_offset for row in rows),
        size_bytes=ENTRY_OVERHEAD_BYTES + ROW_OVERHEAD_BYTES * len(rows),
    )
