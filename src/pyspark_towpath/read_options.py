"""What a reader is asked for, out of its options. Where Spark's Kafka source has an option of the
same meaning, the name and the values are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark_towpath.connection import CONNECTION_OPTIONS, settings_of
from pyspark_towpath.names import BadOption, by_name, flag, whole_number
from towpath.metadata.keys.groups import fits
from towpath.reading.slice_rows import TimeRange
from towpath.reading.stores import Stores

EARLIEST = -2
"""As an offset: where the log begins."""
LATEST = -1
"""As an offset: where the log ends."""
WORDS = {"earliest": EARLIEST, "latest": LATEST}

BOTH = (
    *CONNECTION_OPTIONS,
    "topic",
    "columns",
    "partitions",
    "minPartitions",
    "startingOffsets",
    "startingTimestamp",
    "timestampFrom",
    "timestampBefore",
)
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "asOf")
STREAM_ONLY = ("maxOffsetsPerTrigger", "checkpointLocation", "failOnDataLoss", "groupId")
SPARKS_OWN = ("path",)


@dataclass(frozen=True, slots=True)
class AtTime:
    """Where the first record is that is not older."""

    timestamp_ms: int


Position = int | AtTime
"""An offset, EARLIEST, LATEST, or the offset that belongs to a time."""


@dataclass(frozen=True, slots=True)
class Positions:
    """A position for every partition: one of its own, or that of all others."""

    others: Position
    own: Mapping[int, Position]

    def of(self, partition: int) -> Position:
        """That of a partition."""
        return self.own.get(partition, self.others)


@dataclass(frozen=True)
class ReadOptions:
    """What is to be read."""

    stores: Stores
    topic: str
    columns: tuple[str, ...] | None = None
    partitions: tuple[int, ...] | None = None
    workers: int | None = None
    start: Positions = Positions(EARLIEST, {})
    end: Positions = Positions(LATEST, {})
    times: TimeRange | None = None
    offsets_max: int | None = None
    checkpoint: str | None = None
    fail_on_data_loss: bool = True
    group_id: str | None = None
    """Whose committed offsets tell how far a stream has come."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_streaming: bool = False) -> ReadOptions:
        """Raises BadOption, or NothingToRead if there is no such system."""
        options = known_options(given)
        for name in BATCH_ONLY if is_streaming else STREAM_ONLY:
            if name in options:
                kind = "batch reads" if is_streaming else "streams"
                raise BadOption(f"option {name!r} is for {kind} only")
        topic = options["topic"]
        found = cls(Stores.of(settings_of(options)), topic)
        start = _positions(options, topic, "startingOffsets", "startingTimestamp", EARLIEST)
        end = _positions(options, topic, "endingOffsets", "endingTimestamp", LATEST)
        if "asOf" in options:
            if "endingOffsets" in options or "endingTimestamp" in options:
                raise BadOption("option 'asOf' says where to end: give no other end")
            end = _as_of(options["asOf"], topic)
        return replace(
            found,
            columns=columns_in(options),
            partitions=_numbers(options, "partitions"),
            workers=_number(options, "minPartitions"),
            start=start,
            end=end,
            times=_times(options),
            offsets_max=_number(options, "maxOffsetsPerTrigger"),
            checkpoint=options.get("checkpointLocation"),
            fail_on_data_loss=flag("failOnDataLoss", options.get("failOnDataLoss", "true")),
            group_id=_group_id(options),
        )


def _group_id(options: Mapping[str, str]) -> str | None:
    group_id = options.get("groupId")
    if group_id is not None and not (group_id and fits(group_id)):
        raise BadOption(f"option 'groupId' wants the name of a group, not {group_id[:80]!r}")
    return group_id


def known_options(given: Mapping[str, str]) -> dict[str, str]:
    """A reader's options by their names. Raises BadOption."""
    options = by_name(given, (*BOTH, *BATCH_ONLY, *STREAM_ONLY), SPARKS_OWN)
    if not options.get("topic"):
        raise BadOption("give the option 'topic'")
    return options


def offsets_in(text: str, topic: str, name: str) -> dict[int, int] | None:
    """Offsets by partition out of JSON, `{"0": 5}` or `{"orders": {"0": 5}}`; None if it is not
    JSON."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text)
        found = document.get(topic, document)
        offsets = {int(partition): _offset(offset) for partition, offset in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        wanted = f'{{"{topic}": {{"0": 5, "1": -2}}}}'
        raise BadOption(f"option {name!r} wants JSON like {wanted}, not {text!r}") from error
    return offsets


def _offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < EARLIEST:
        raise ValueError(value)
    return value


def _positions(
    options: Mapping[str, str], topic: str, by_offset: str, by_time: str, default: int
) -> Positions:
    if by_offset in options and by_time in options:
        raise BadOption(f"give one of the options {by_offset!r} and {by_time!r}")
    if by_time in options:
        return _positions_at(options[by_time], topic, by_time, default)
    text = options.get(by_offset)
    if text is None:
        return Positions(default, {})
    own = offsets_in(text, topic, by_offset)
    if own is not None:
        return Positions(default, own)
    if text.lower() in WORDS:
        return Positions(WORDS[text.lower()], {})
    return Positions(whole_number(by_offset, text, 0), {})


def _positions_at(text: str, topic: str, name: str, default: int) -> Positions:
    """Times instead of offsets: one for all partitions, or JSON."""
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
            found = document.get(topic, document)
            own = {int(number): AtTime(timestamp_ms(name, str(at))) for number, at in found.items()}
        except (ValueError, AttributeError) as error:
            raise BadOption(f"option {name!r} wants a time, or JSON of times: {text!r}") from error
        return Positions(default, own)
    return Positions(AtTime(timestamp_ms(name, text)), {})


def _as_of(text: str, topic: str) -> Positions:
    """Everything before these offsets, or before the first record that is later than a time."""
    own = offsets_in(text, topic, "asOf")
    if own is not None:
        return Positions(LATEST, own)
    return Positions(AtTime(timestamp_ms("asOf", text) + 1), {})


def timestamp_ms(name: str, text: str) -> int:
    """Milliseconds since 1970, given so or as a time of ISO 8601; without a zone it is UTC. What is
    finer than a millisecond is cut off: records have no finer times."""
    return timestamp_us(name, text) // 1000


def timestamp_us(name: str, text: str) -> int:
    """As `timestamp_ms`, in microseconds."""
    if re.fullmatch(r"-?\d+", text):
        return int(text) * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadOption(
            f"option {name!r} wants milliseconds or a time like 2026-05-04T10:00:00Z, not {text!r}"
        ) from error
    return microseconds(moment)


def microseconds(moment: datetime) -> int:
    """Since 1970; without a zone it is UTC."""
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    delta = known - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _times(options: Mapping[str, str]) -> TimeRange | None:
    bounds = [
        timestamp_us(name, options[name]) if name in options else None
        for name in ("timestampFrom", "timestampBefore")
    ]
    return None if bounds == [None, None] else TimeRange(*bounds)


def columns_in(options: Mapping[str, str]) -> tuple[str, ...] | None:
    """The columns that are asked for, if some are."""
    if "columns" not in options:
        return None
    names = tuple(name.strip() for name in options["columns"].split(","))
    if len(set(names)) < len(names) or not all(names):
        raise BadOption(f"option 'columns' wants names, each once: {options['columns']!r}")
    return names


def _numbers(options: Mapping[str, str], name: str) -> tuple[int, ...] | None:
    if name not in options:
        return None
    return tuple(sorted({whole_number(name, part, 0) for part in options[name].split(",")}))


def _number(options: Mapping[str, str], name: str) -> int | None:
    return whole_number(name, options[name], 1) if name in options else None
