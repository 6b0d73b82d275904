"""Reads a topic as a stream of micro-batches.

Spark 4.1 asks a Python source only how far there is to go (`latestOffset`) and for the slices
between two answers, so that a limit has to be part of the answer. All of this runs in one process
beside the driver; `read` runs in the workers, on a reader of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_towpath.between_tasks import lighten, settle_in
from pyspark_towpath.group_progress import GroupProgress
from pyspark_towpath.names import BadOption
from pyspark_towpath.planning import SlicePartition, slices
from pyspark_towpath.progress import Progress, last_in_checkpoint, limited
from pyspark_towpath.read_options import ReadOptions
from pyspark_towpath.schema import wanted_of
from pyspark_towpath.spans import Resolver
from towpath.log.interface import Bounds
from towpath.reading.index import IndexReader
from towpath.reading.slice_rows import rows_of_slice
from towpath.reading.topic import OffsetsAhead, OffsetsGone, Span, TopicPlan, plan_topic


class TopicStreamReader(DataSourceStreamReader):
    """One topic as a stream."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        if options.offsets_max is not None and options.checkpoint is None:
            raise BadOption(
                "option 'maxOffsetsPerTrigger' needs the option 'checkpointLocation', the same as "
                "the query's: Spark does not tell a Python source where a query goes on"
            )
        self._options = options
        self._wanted = wanted_of(options, columns)
        self._initial: Progress | None = None
        self._reached: Progress | None = None
        """The end of the last micro-batch, once it is known."""
        self._group = GroupProgress.of(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names.
        """Where a query begins that has no checkpoint."""
        return self._begin().to_dict()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        if self._group is not None:
            self._group.batch_is_done()
        latest = self._options.stores.at_one_moment(self._ends)
        limit = self._options.offsets_max
        if limit is None:
            return latest.to_dict()
        start = self._position()
        ends = limited(start.offsets, latest.offsets, limit)
        return Progress(latest.topic, latest.topic_id, ends).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Slices of what lies between."""
        first, last = Progress.from_dict(start), Progress.from_dict(end)

        def plan(reader: IndexReader) -> TopicPlan:
            return self._plan(reader, first, last)

        found = slices(self._options, self._wanted, self._options.stores.at_one_moment(plan))
        self._reached = last
        if self._group is not None:
            self._group.batch_is_planned(first, last)
        return found

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """In a worker: the rows of a slice."""
        settle_in()
        if isinstance(partition, SlicePartition):
            yield from rows_of_slice(self._options.stores, self._wanted, partition.value)
        lighten()

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has everything before `end`; nothing is kept for it, but its group is told."""
        if self._group is not None:
            self._group.reached(Progress.from_dict(end))

    def stop(self) -> None:
        """The query ends."""
        if self._group is not None:
            self._group.query_ends()

    def _position(self) -> Progress:
        """Where the next micro-batch begins."""
        if self._reached is None:
            assert self._options.checkpoint is not None
            self._reached = last_in_checkpoint(self._options.checkpoint, self._options.topic)
        return self._reached or self._begin()

    def _begin(self) -> Progress:
        # Asked twice it must be the same, although the log's end moves on.
        if self._initial is None:
            self._initial = self._options.stores.at_one_moment(self._starts)
        return self._initial

    def _starts(self, reader: IndexReader) -> Progress:
        found = Resolver(self._options, reader)
        offsets = {number: found.start(number) for number in found.partitions}
        for number, offset in offsets.items():
            if offset > found.bounds[number].end:
                end = found.bounds[number].end
                place = f"partition {number} of {self._options.topic!r}"
                raise OffsetsAhead(f"{place} ends at offset {end}; {offset} was asked for")
        return Progress(self._options.topic, str(found.record.topic_id), offsets)

    def _ends(self, reader: IndexReader) -> Progress:
        found = Resolver(self._options, reader)
        offsets = {number: found.bounds[number].end for number in found.partitions}
        return Progress(self._options.topic, str(found.record.topic_id), offsets)

    def _plan(self, reader: IndexReader, start: Progress, end: Progress) -> TopicPlan:
        found = Resolver(self._options, reader)
        topic_id = str(found.record.topic_id)
        if topic_id not in (start.topic_id, end.topic_id) or start.topic_id != end.topic_id:
            raise OffsetsGone(
                f"topic {self._options.topic!r} was deleted and created again since the query began"
            )
        spans = {
            number: self._span(number, found.bounds[number], start.offsets, offset)
            for number, offset in end.offsets.items()
        }
        return plan_topic(reader, self._options.topic, spans)

    def _span(self, number: int, bounds: Bounds, starts: Mapping[int, int], end: int) -> Span:
        """Of a partition that came after the query began, everything is wanted."""
        start = starts.get(number, bounds.start)
        if start < bounds.start and start < end and not self._options.fail_on_data_loss:
            start = min(bounds.start, end)
            return Span(start, end) if start >= bounds.start else Span(bounds.start, bounds.start)
        return Span(start, end)
