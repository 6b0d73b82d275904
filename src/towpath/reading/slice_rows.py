"""The rows of a slice, also when what was planned has moved since.

Between the plan and its reading a WAL object may become Parquet and small files a large one. What
was replaced stays for a grace of minutes; a reader that comes later looks into the index again,
if it can reach it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from towpath.errors import LogDamaged
from towpath.objects.store import ObjectNotFound
from towpath.reading.parts import Part, WalPart
from towpath.reading.rows import rows_of, wal_rows
from towpath.reading.slices import Slice
from towpath.reading.stores import Stores
from towpath.reading.times import first_offset, newest_ms, oldest_ms
from towpath.reading.topic import Span, plan_topic
from towpath.records import table
from towpath.typed.columns import TypedColumns

PLANS_MAX = 3
"""How often the index is asked where a part's records are now."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Records with timestamps in `[from_us, before_us)`; None is no bound."""

    from_us: int | None = None
    before_us: int | None = None

    def may_hold(self, part: Part) -> bool:
        """Whether some record of the part may be wanted."""
        oldest = oldest_ms(part)
        late = self.from_us is None or newest_ms(part) * 1000 >= self.from_us
        early = self.before_us is None or oldest is None or oldest * 1000 < self.before_us
        return late and early

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted."""
        times_us = rows.column(table.TIMESTAMP).cast(pa.int64()).to_numpy()
        mask = np.ones(len(times_us), bool)
        if self.from_us is not None:
            mask &= times_us >= self.from_us
        if self.before_us is not None:
            mask &= times_us < self.before_us
        return rows if mask.all() else rows.filter(pa.array(mask))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asks of a topic's rows."""

    topic: str
    columns: tuple[str, ...]
    times: TimeRange | None = None
    typed: TypedColumns | None = None
    """What the values were declared to be when the columns were chosen."""


def rows_of_slice(stores: Stores, wanted: Wanted, part: Slice) -> Iterator[pa.RecordBatch]:
    """The slice's rows, of each partition in the order of the index."""
    needed = [table.OFFSET] if wanted.times is None else [table.OFFSET, table.TIMESTAMP]
    columns = tuple(dict.fromkeys([*wanted.columns, *needed]))
    for run in part.runs:
        for parts in _together(run.parts):
            reading = _Reading(stores, wanted, run.partition, columns)
            for rows in reading.rows(parts):
                chosen = rows if wanted.times is None else wanted.times.of(rows)
                if chosen.num_rows:
                    yield chosen.select(list(wanted.columns))


class _Reading:
    """Reads parts whose offsets follow each other."""

    def __init__(
        self, stores: Stores, wanted: Wanted, partition: int, columns: tuple[str, ...]
    ) -> None:
        self._stores = stores
        self._objects = stores.objects()
        self._topic = wanted.topic
        self._typed = wanted.typed
        self._partition = partition
        self._columns = columns

    def rows(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """Their rows. When a part is gone, the offsets that are left are planned anew."""
        is_moving = all(isinstance(part, WalPart) or part.is_alone for part in parts)
        at, end = first_offset(parts[0]), _end(parts[-1])
        plans_left = PLANS_MAX
        while True:
            try:
                for rows in self._read(parts):
                    yield rows
                    at = int(rows.column(table.OFFSET)[-1].as_py()) + 1
                    plans_left = PLANS_MAX
                return
            except ObjectNotFound as gone:
                if not plans_left:
                    raise LogDamaged(f"{gone} is gone, and the index still names it") from gone
                if not is_moving or not self._stores.metadata_path.exists():
                    raise LogDamaged(f"{gone} is gone since it was planned: read again") from gone
            plans_left -= 1
            parts = self._plan(Span(at, end))

    def _plan(self, span: Span) -> Sequence[Part]:
        spans = {self._partition: span}
        plan = self._stores.at_one_moment(lambda reader: plan_topic(reader, self._topic, spans))
        return plan.partitions[0].parts

    def _read(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        chosen = (self._columns, self._typed)
        for some in _together(parts):
            wal = [part for part in some if isinstance(part, WalPart)]
            if wal:
                yield from wal_rows(self._objects, self._partition, wal, *chosen)
            else:
                yield from rows_of(self._objects, self._partition, some[0], *chosen)


def _end(part: Part) -> int:
    return part.end if isinstance(part, WalPart) else min(part.end, part.file.last_offset + 1)


def _together(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Files one by one; neighbours of the WAL at once."""
    some: list[Part] = []
    for part in parts:
        if some and not (isinstance(part, WalPart) and isinstance(some[-1], WalPart)):
            yield some
            some = []
        some.append(part)
    if some:
        yield some
