"""Reads a topic once: what the log holds at one moment, or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_towpath.between_tasks import lighten, settle_in
from pyspark_towpath.filters import Narrowed, narrowed
from pyspark_towpath.planning import SlicePartition, slices
from pyspark_towpath.read_options import ReadOptions
from pyspark_towpath.schema import wanted_of
from pyspark_towpath.spans import Resolver
from towpath.reading.index import IndexReader
from towpath.reading.slice_rows import rows_of_slice
from towpath.reading.topic import TopicPlan, plan_topic


class PushFilters:
    """Spark refuses a reader with filters when `spark.sql.python.filterPushdown.enabled` is off,
    and does not tell a source whether it is. It asks only whether the method is its own: this one
    says so, and narrows the plan when it is called all the same."""

    def __init__(self, push: Callable[[Iterable[Filter]], None]) -> None:
        self._push = push
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """All of them are Spark's to apply again, which costs little and cannot be wrong."""
        self._push(filters)
        return filters


class TopicReader(DataSourceReader):
    """Plans on the driver; workers get slices of the plan. It travels to them as well, so it must
    not hold the plan."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._wanted = wanted_of(options, columns)
        self._narrowed = Narrowed()

    def __getattribute__(self, name: str) -> Any:
        if name == "pushFilters":
            return PushFilters(self._push)
        return super().__getattribute__(name)

    def _push(self, filters: Iterable[Filter]) -> None:
        self._narrowed = narrowed(filters)
        self._wanted = replace(self._wanted, times=self._narrowed.times(self._options.times))

    def partitions(self) -> list[InputPartition]:
        """Slices of the plan of this moment."""
        found = slices(self._options, self._wanted, self._options.stores.at_one_moment(self._plan))
        lighten()
        return found

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """In a worker: the rows of a slice."""
        settle_in()
        if isinstance(partition, SlicePartition):
            yield from rows_of_slice(self._options.stores, self._wanted, partition.value)
        lighten()

    def _plan(self, reader: IndexReader) -> TopicPlan:
        spans = Resolver(self._options, reader).spans()
        chosen = {
            number: self._narrowed.span(span)
            for number, span in spans.items()
            if self._narrowed.partitions.holds(number)
        }
        return plan_topic(reader, self._options.topic, chosen)
