"""Index entries with absolute offsets, decoded from key and value once."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
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


class Entry:
    """`[start, end)` of a stream and where it lies. Without rows it holds no data (tombstone)."""

    __slots__ = (
        "_message", "_rows", "chunk_length", "created_at_ms", "cumulative_size", "end", "key",
        "max_timestamp_ms", "path", "size_bytes", "start", "stream_id", "version", "wal_id",
    )  # fmt: skip

    def __init__(self, key: str, version: int, message: index_pb2.IndexEntry) -> None:
        self.stream_id, self.end, self.cumulative_size = streams.parse_index_entry(key)
        self.key = key
        self.version = version
        self.start = self.end - message.record_count
        self.created_at_ms = message.created_at_ms
        self.max_timestamp_ms = message.max_timestamp_ms
        wal = message.wal
        self.wal_id = wal.wal_id
        self.path = wal.path
        self.chunk_length = wal.chunk_length
        self.size_bytes = ENTRY_OVERHEAD_BYTES + ROW_OVERHEAD_BYTES * len(wal.batches)
        """What the entry costs in a cache."""
        self._message: index_pb2.IndexEntry | None = message
        self._rows: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The batches in order. Made when they are first asked for: most entries of a broker's own
        commits are never read through it."""
        message = self._message
        if message is not None:
            start, wal = self.start, message.wal
            chunk_offset = wal.chunk_offset
            self._rows = tuple(
                [
                    Row(
                        start + row.start_offset_delta,
                        start + row.last_offset_delta,
                        chunk_offset + row.offset_in_chunk,
                        row.length,
                        row.max_timestamp_ms,
                    )
                    for row in wal.batches
                ]
            )
            self._message = None
        return self._rows

    def first_row_at(self, offset: int) -> int:
        """The index of the first batch whose last offset is at least `offset`."""
        return bisect_left(self.rows, offset, key=attrgetter("last_offset"))


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
    if message.file_type not in (index_pb2.WAL, index_pb2.TOMBSTONE):
        raise UnknownEntry(f"index entry {key} has file type {message.file_type}")
    return Entry(key, version, message)
