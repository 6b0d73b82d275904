"""Where the records of a range of offsets lie: Parquet files and batches of WAL objects.

A plan is made of one reading of the index and covers every offset of its range exactly once,
however entries are being replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towpath.lakehouse.wal_chunk import WalChunk
from towpath.log.object.entries import Entry
from towpath.log.object.stretches import DataFile


@dataclass(frozen=True, slots=True)
class FilePart:
    """Those records of a Parquet file whose offsets lie in `[start, end)`."""

    file: DataFile
    start: int
    end: int
    is_alone: bool = True
    """Whether no other file has offsets between its first and its last."""

    @property
    def is_whole(self) -> bool:
        """Whether these are all of its records."""
        return self.start <= self.file.first_offset and self.file.last_offset < self.end


@dataclass(frozen=True, slots=True)
class WalPart:
    """Those records of some batches of a WAL object whose offsets lie in `[start, end)`."""

    chunk: WalChunk
    start: int
    end: int
    max_timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """What its batches take in the object."""
        return sum(length for _, _, length in self.chunk.batches)


Part = FilePart | WalPart


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The records of `[start, end)` of a partition. The parts are in the order of the index; files
    of a table that is split by day may overlap in their offsets."""

    partition: int
    start: int
    end: int
    parts: tuple[Part, ...]

    @property
    def files(self) -> tuple[FilePart, ...]:
        """The compacted part."""
        return tuple(part for part in self.parts if isinstance(part, FilePart))

    @property
    def tail(self) -> tuple[WalPart, ...]:
        """What is not compacted yet."""
        return tuple(part for part in self.parts if isinstance(part, WalPart))


class Gap(Exception):
    """The entries leave an offset out: one was replaced or removed while they were read."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"no entry has offset {offset}")
        self.offset = offset


def plan_partition(partition: int, entries: Iterable[Entry], start: int, end: int) -> PartitionPlan:
    """A plan of `[start, end)`, which must lie above the log start, out of the entries whose ends
    lie above `start`, in order. Raises Gap."""
    parts: list[Part] = []
    at = start
    for entry in entries:
        if at >= end:
            break
        if entry.start > at:
            # It was replaced, as those before it, which are deleted already: a later entry has
            # what is missing, or nothing has.
            continue
        # An entry that replaced some which were read before it begins below: it goes on from here.
        parts += _parts_of(entry, at, min(entry.end, end))
        at = max(at, entry.end)
    if at < end:
        raise Gap(at)
    return PartitionPlan(partition, start, end, tuple(parts))


def _parts_of(entry: Entry, start: int, end: int) -> list[Part]:
    if start >= end:
        return []
    if entry.is_parquet:
        return [
            FilePart(file, start, end, is_alone=len(stretch.files) == 1)
            for stretch in entry.stretches
            for file in stretch.files
            if file.first_offset < end and file.last_offset >= start
        ]
    rows = [row for row in entry.rows if row.base_offset < end and row.last_offset >= start]
    if not rows:
        return []
    batches = tuple((row.base_offset, row.position, row.length) for row in rows)
    newest_ms = max(row.max_timestamp_ms for row in rows)
    return [WalPart(WalChunk(entry.path, batches), start, end, newest_ms)]
