"""A place in a topic as text, such as `--from` of `towpath consume`, and as an offset of each
partition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from towpath.cli import offsets
from towpath.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from towpath.cli.offsets import TopicPartition


class Kind(Enum):
    """What the number of a start point means."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    BEFORE_END = "before end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class StartPoint:
    """A parsed place."""

    kind: Kind
    number: int = 0


def parse(text: str, flag: str = "--from") -> StartPoint:
    """`earliest`, `latest`, an offset, `-N` from the end, `@MILLISECONDS` or an ISO 8601 time.
    Mistakes are told of the flag."""
    plain = text.strip()
    if plain in ("earliest", "latest"):
        return StartPoint(Kind(plain))
    if re.fullmatch(r"[0-9]{1,19}", plain):
        return StartPoint(Kind.OFFSET, int(plain))
    if re.fullmatch(r"-[0-9]{1,18}", plain):
        return StartPoint(Kind.BEFORE_END, int(plain[1:]))
    if re.fullmatch(r"@[0-9]{1,18}", plain):
        return StartPoint(Kind.TIME, int(plain[1:]))
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        raise UsageError(
            f"{flag} wants earliest, latest, an offset, -N, @MILLISECONDS or a time such as "
            f"2026-01-31T12:00:00Z, not '{text}'"
        ) from None
    # A time without zone is the user's own: astimezone takes the machine's zone for it.
    return StartPoint(Kind.TIME, int(moment.astimezone().timestamp() * 1000))


def resolve(
    admin: AdminClient, partitions: Sequence[TopicPartition], start: StartPoint
) -> dict[TopicPartition, int]:
    """The offset to start at in each partition; CliError if one lies outside its log."""
    if start.kind is Kind.EARLIEST:
        return offsets.earliest(admin, partitions)
    ends = offsets.latest(admin, partitions)
    if start.kind is Kind.LATEST:
        return ends
    if start.kind is Kind.TIME:
        found = offsets.at_time(admin, partitions, start.number)
        return {key: found[key] if found[key] >= 0 else ends[key] for key in partitions}
    starts = offsets.earliest(admin, partitions)
    if start.kind is Kind.BEFORE_END:
        return {key: max(starts[key], ends[key] - start.number) for key in partitions}
    for topic, partition in partitions:
        low, high = starts[(topic, partition)], ends[(topic, partition)]
        if not low <= start.number <= high:
            raise CliError(
                f"offset {start.number} is outside [{low}, {high}] of {topic} partition {partition}"
            )
    return dict.fromkeys(partitions, start.number)
