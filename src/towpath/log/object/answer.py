"""A read's answer while it is put together: whole batches in order, within its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from towpath.log.object.entries import Entry, Row
from towpath.log.object.parquet_batches import Batches
from towpath.objects.store import Buffer


class Span(NamedTuple):
    """Batches of one WAL entry that the answer needs; they are loaded later."""

    entry: Entry
    rows: Sequence[Row]


class Answer:
    """What an answer takes. With `min_one` its first batch may be larger than `max_bytes`.

    Only the first batch may begin below the offset that it is taken for: a second one would repeat
    records (this happens where a cached WAL entry is followed by the Parquet entry that replaced
    it). The answer ends before it.
    """

    def __init__(self, max_bytes: int, *, min_one: bool) -> None:
        self.parts: list[Span | list[Buffer]] = []
        self._left = max_bytes
        self._must_take = min_one

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be taken."""
        return self._left <= 0 and not self._must_take

    def take_wal(self, entry: Entry, offset: int) -> None:
        """Take batches of a WAL entry from an offset on."""
        rows: Sequence[Row] = entry.rows[entry.first_row_at(offset) :]
        if rows and self._may_follow(rows[0].base_offset, offset):
            count = self._fitting([row.length for row in rows])
            if count:
                self.parts.append(Span(entry, rows if count == len(rows) else rows[:count]))

    def take_batches(self, found: Batches, offset: int) -> int:
        """Take batches that are in memory from an offset on; the offset after the last taken."""
        batches = found.from_offset(offset)
        if self.is_full or not self._may_follow(batches[0].base_offset, offset):
            return offset
        count = self._fitting([len(batch.data) for batch in batches])
        if not count:
            return offset
        self.parts.append([batch.data for batch in batches[:count]])
        return batches[count - 1].last_offset + 1

    def _may_follow(self, base_offset: int, offset: int) -> bool:
        if self.parts and base_offset < offset:
            self._end()
            return False
        return True

    def _fitting(self, sizes: list[int]) -> int:
        """How many of the next batches are taken; if not all, the answer ends there."""
        size_bytes = sum(sizes)
        if size_bytes <= self._left:
            self._left -= size_bytes
            self._must_take = False
            return len(sizes)
        count = 0
        for size in sizes:
            if size > self._left and not self._must_take:
                break
            self._left -= size
            self._must_take = False
            count += 1
        self._end()
        return count

    def _end(self) -> None:
        self._left = 0
        self._must_take = False
