"""Index entries with absolute offsets, decoded from key and value once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

from towpath.log.object.stretches import DataFile, Stretch, stretches
from towpath.metadata.keys import streams
from towpath.metadata.proto import index_pb2
from towpath.metadata.store import KeyValue

ENTRY_VERSION = 1
LEADER_EPOCH = 0
"""The object class has no leaders: the epoch is 0 everywhere."""
ENTRY_OVERHEAD_BYTES = 900
ROW_OVERHEAD_BYTES = 250
FILE_OVERHEAD_BYTES = 700
"""What an entry and each of its rows or files take in memory, about."""
KNOWN_FILE_TYPES = (index_pb2.WAL, index_pb2.PARQUET, index_pb2.TOMBSTONE)


class Row(NamedTuple):
    """One batch of a WAL chunk. `position` is its first byte's place in the object."""

    base_offset: int
    last_offset: int
    position: int
    length: int
    min_timestamp_ms: int
    max_timestamp_ms: int


class Entry:
    """`[start, end)` of a stream and where it lies: batches of a WAL object, or Parquet files.

    A tombstone has neither. A Parquet entry without files is void: its offsets are there, its
    records are not.
    """

    __slots__ = (
        "_message", "_rows", "_stretches", "chunk_length", "created_at_ms", "cumulative_size",
        "end", "file_count", "is_parquet", "key", "max_timestamp_ms", "path", "size_bytes", "start",
        "stream_id", "version", "wal_bytes", "wal_id",
    )  # fmt: skip

    def __init__(self, key: str, version: int, message: index_pb2.IndexEntry) -> None:
        self.stream_id, self.end, self.cumulative_size = streams.parse_index_entry(key)
        self.key = key
        self.version = version
        self.start = self.end - message.record_count
        self.created_at_ms = message.created_at_ms
        self.max_timestamp_ms = message.max_timestamp_ms
        self.is_parquet = message.file_type == index_pb2.PARQUET
        wal = message.wal
        self.wal_id = wal.wal_id
        self.path = wal.path
        self.chunk_length = wal.chunk_length
        self.wal_bytes = message.wal_bytes
        """Of a Parquet entry: what its records took in WAL form."""
        self.file_count = len(message.parquet)
        self.size_bytes = (
            ENTRY_OVERHEAD_BYTES
            + ROW_OVERHEAD_BYTES * len(wal.batches)
            + FILE_OVERHEAD_BYTES * self.file_count
        )
        """What the entry costs in a cache."""
        self._message: index_pb2.IndexEntry | None = message
        self._rows: tuple[Row, ...] = ()
        self._stretches: tuple[Stretch, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The batches of a WAL chunk in order. Made when they are first asked for: most entries of
        a broker's own commits are never read through it."""
        if self._message is not None:
            self._unpack(self._message)
        return self._rows

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """The files of a Parquet entry by offset. Together the stretches cover the whole range;
        only a void entry has none."""
        if self._message is not None:
            self._unpack(self._message)
        return self._stretches

    def first_row_at(self, offset: int) -> int:
        """The index of the first batch whose last offset is at least `offset`."""
        return bisect_left(self.rows, offset, key=attrgetter("last_offset"))

    def stretch_at(self, offset: int) -> Stretch:
        """The stretch of an offset that lies in the range of this Parquet entry with files."""
        return self.stretches[bisect_right(self.stretches, offset, key=attrgetter("start")) - 1]

    def names(self, path: str) -> bool:
        """Whether this object is part of the entry."""
        if self.is_parquet:
            return any(file.path == path for part in self.stretches for file in part.files)
        return bool(path) and self.path == path

    def _unpack(self, message: index_pb2.IndexEntry) -> None:
        if self.is_parquet:
            self._stretches = stretches(self.start, self.end, _files(self.start, message))
        else:
            self._rows = _rows(self.start, message.wal)
        self._message = None


def _rows(start: int, wal: index_pb2.WalLocation) -> tuple[Row, ...]:
    chunk_offset = wal.chunk_offset
    return tuple(
        [
            Row(
                start + row.start_offset_delta,
                start + row.last_offset_delta,
                chunk_offset + row.offset_in_chunk,
                row.length,
                row.min_timestamp_ms,
                row.max_timestamp_ms,
            )
            for row in wal.batches
        ]
    )


def _files(start: int, message: index_pb2.IndexEntry) -> list[DataFile]:
    return [
        DataFile(
            file.path,
            file.size_bytes,
            file.footer_bytes,
            file.record_count,
            start + file.first_offset_delta,
            start + file.last_offset_delta,
            file.min_timestamp_ms,
            file.max_timestamp_ms,
            file.value_stamp,
        )
        for file in message.parquet
    ]


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
    if message.file_type not in KNOWN_FILE_TYPES:
        raise UnknownEntry(f"index entry {key} has file type {message.file_type}")
    return Entry(key, version, message)
