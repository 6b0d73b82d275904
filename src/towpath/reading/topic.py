"""A topic's plan: every partition's records at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.errors import LogDamaged, TowpathError
from towpath.metadata.keys.topics import TopicRecord, stream_id
from towpath.reading.index import IndexReader
from towpath.reading.parts import Gap, PartitionPlan, plan_partition

if TYPE_CHECKING:
    from towpath.typed.columns import TypedColumns


class NoSuchTopic(TowpathError):
    """There is no topic of this name."""


class OffsetsGone(TowpathError):
    """Records that were asked for have left the log."""


class OffsetsAhead(TowpathError):
    """Offsets were asked for that nobody has written yet."""


@dataclass(frozen=True, slots=True)
class Span:
    """Which offsets of a partition are wanted: `[start, end)`; None is the log's own bound."""

    start: int | None = None
    end: int | None = None


EVERYTHING = Span()


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Where the records of a topic lie."""

    topic: str
    record: TopicRecord
    partitions: tuple[PartitionPlan, ...]
    typed: TypedColumns | None = None
    """The columns that the values are declared to have, at the same moment."""


def plan_topic(
    reader: IndexReader, name: str, spans: Mapping[int, Span] | None = None
) -> TopicPlan:
    """The plan of a topic's partitions: those that `spans` names, or all of them."""
    record = reader.topic(name)
    if record is None:
        raise NoSuchTopic(f"there is no topic {name!r}")
    wanted = dict.fromkeys(range(record.partitions), EVERYTHING) if spans is None else spans
    unknown = [number for number in wanted if not 0 <= number < record.partitions]
    if unknown:
        raise NoSuchTopic(
            f"topic {name!r} has {record.partitions} partitions, no number {unknown[0]}"
        )
    streams = [stream_id(record.number, number) for number in wanted]
    plans = []
    for (number, span), stream, bounds in zip(
        wanted.items(), streams, reader.bounds(streams), strict=True
    ):
        start = bounds.start if span.start is None else span.start
        end = bounds.end if span.end is None else span.end
        place = f"partition {number} of {name!r}"
        if start < bounds.start and start < end:
            raise OffsetsGone(f"{place} begins at offset {bounds.start}; {start} was asked for")
        if end > bounds.end:
            raise OffsetsAhead(f"{place} ends at offset {bounds.end}; {end} was asked for")
        try:
            plans.append(plan_partition(number, reader.entries(stream, start), start, end))
        except Gap as gap:
            raise LogDamaged(f"the index of {place} has no entry for {gap.offset}") from gap
    return TopicPlan(name, record, tuple(plans), typed_of(reader, record))


def typed_of(reader: IndexReader, record: TopicRecord) -> TypedColumns | None:
    """The columns that a topic's values are declared to have."""
    if not record.config:
        return None
    # Few topics declare anything, and these take time to load.
    from towpath.typed.columns import typed_columns
    from towpath.typed.declaration import declared

    declaration = declared(record.config)
    if declaration is None:
        return None
    return typed_columns(declaration, reader.known_columns(record.number))[0]
