"""Positions become offsets: what a reader asked for, held against the log at one moment."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_towpath.names import BadOption
from pyspark_towpath.read_options import EARLIEST, LATEST, AtTime, Position, ReadOptions
from towpath.log.interface import Bounds
from towpath.metadata.keys.topics import TopicRecord, stream_id
from towpath.reading.index import IndexReader
from towpath.reading.times import first_at_or_after
from towpath.reading.topic import NoSuchTopic, Span, plan_topic


def topic_record(reader: IndexReader, name: str) -> TopicRecord:
    """The topic. Raises NoSuchTopic."""
    record = reader.topic(name)
    if record is None:
        raise NoSuchTopic(f"there is no topic {name!r}")
    return record


def bounds_of(reader: IndexReader, record: TopicRecord) -> list[Bounds]:
    """First readable offset and log end of each partition."""
    numbers = range(record.partitions)
    return reader.bounds([stream_id(record.number, number) for number in numbers])


def chosen(options: ReadOptions, record: TopicRecord) -> tuple[int, ...]:
    """The partitions that are read."""
    if options.partitions is None:
        return tuple(range(record.partitions))
    missing = [number for number in options.partitions if number >= record.partitions]
    if missing:
        raise BadOption(
            f"topic {options.topic!r} has {record.partitions} partitions, no number {missing[0]}"
        )
    return options.partitions


class Resolver:
    """Resolves positions of one topic at one moment."""

    def __init__(self, options: ReadOptions, reader: IndexReader) -> None:
        self._options = options
        self._reader = reader
        self.record = topic_record(reader, options.topic)
        self.bounds = bounds_of(reader, self.record)
        self.partitions = chosen(options, self.record)
        for positions in (options.start, options.end):
            self._check(positions.own)

    def spans(self) -> dict[int, Span]:
        """The offsets of each partition; what begins after its end is empty."""
        found = {}
        for number in self.partitions:
            start = self.start(number)
            end = self.offset(number, self._options.end.of(number), LATEST)
            found[number] = Span(min(start, end), end)
        return found

    def start(self, partition: int) -> int:
        """Where reading a partition begins."""
        return self.offset(partition, self._options.start.of(partition), LATEST)

    def offset(self, partition: int, position: Position, otherwise: int) -> int:
        """A position as an offset; `otherwise` is that of a time after all records."""
        bounds = self.bounds[partition]
        if isinstance(position, AtTime):
            plan = plan_topic(self._reader, self._options.topic, {partition: Span()})
            objects = self._options.stores.objects()
            found = first_at_or_after(objects, plan.partitions[0], position.timestamp_ms)
            position = otherwise if found is None else found
        if position == EARLIEST:
            return bounds.start
        return bounds.end if position == LATEST else position

    def _check(self, partitions: Iterable[int]) -> None:
        for number in partitions:
            if not 0 <= number < self.record.partitions:
                raise BadOption(
                    f"topic {self._options.topic!r} has {self.record.partitions} partitions, "
                    f"no number {number}"
                )
