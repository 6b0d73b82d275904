"""What `towpath groups reset` is asked to do, and which offsets follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.cli import offsets, offsets_file, start_point
from towpath.cli.errors import CliError, UsageError, complain
from towpath.cli.group_admin import Group
from towpath.cli.output import table
from towpath.cli.show_groups import dash
from towpath.cli.start_point import Kind, StartPoint
from towpath.cli.topics import describe_all

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from towpath.cli.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Shift:
    """By so many records, back if it is negative."""

    count: int


Target = StartPoint | Shift | Mapping["TopicPartition", int]
"""One place for all partitions, or an offset for each."""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's offset before and after."""

    topic: str
    partition: int
    committed: int | None
    offset: int
    log_start: int
    log_end: int

    def as_json(self) -> dict[str, object]:
        """The move for programs; a list of them is a file for `--from-file`."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed_offset": self.committed,
            "offset": self.offset,
            "log_start": self.log_start,
            "log_end": self.log_end,
        }

    def cells(self) -> list[str]:
        """The move for people."""
        return [
            self.topic,
            str(self.partition),
            dash(self.committed),
            str(self.offset),
            str(self.log_start),
            str(self.log_end),
            str(self.log_end - self.offset),
        ]


COLUMNS = ("topic", "partition", "committed", "new offset", "log start", "log end", "lag")


def target_of(to: str | None, shift_by: int | None, from_file: str | None, group: str) -> Target:
    """The one target that the flags give."""
    if sum(flag is not None for flag in (to, shift_by, from_file)) != 1:
        raise UsageError("give one of --to, --shift-by and --from-file")
    if to is not None:
        return start_point.parse(to, "--to")
    if shift_by is not None:
        return Shift(shift_by)
    assert from_file is not None
    return offsets_file.load(from_file, group)


def parse_topics(flags: Sequence[str] | None) -> dict[str, list[int] | None]:
    """`--topic NAME` and `--topic NAME:0,2`; None stands for all partitions."""
    topics: dict[str, list[int] | None] = {}
    for flag in flags or []:
        name, colon, text = flag.partition(":")
        parts = text.split(",") if colon else []
        if not name or name in topics or not all(p.strip().isdecimal() for p in parts):
            raise UsageError(f"--topic wants NAME or NAME:0,2, each topic once, not '{flag}'")
        topics[name] = sorted({int(part) for part in parts}) if colon else None
    return topics


def refuse_if_active(group: Group) -> None:
    """CliError unless the group's offsets may be changed from outside."""
    if group.is_active:
        count = len(group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        raise CliError(
            f"cannot reset group {group.name}: only an inactive group can be reset, and this one "
            f"is {group.state} with {members}; stop its consumers first"
        )


def scope(
    client: AdminClient,
    group: str,
    topics: Mapping[str, list[int] | None],
    target: Target,
    committed: Mapping[TopicPartition, int],
) -> list[TopicPartition]:
    """The partitions to reset: those of the file, of the topics named, or all that have an offset.
    CliError if one does not exist."""
    if isinstance(target, Mapping):
        if topics:
            raise UsageError("--from-file names the partitions: give no --topic with it")
        wanted = sorted(target)
    elif not topics:
        wanted = sorted(committed)
    else:
        wanted = []
    if not wanted and not topics:
        raise CliError(f"group {group} has no committed offsets: name topics with --topic")
    named = list(topics) or list(dict.fromkeys(topic for topic, _ in wanted))
    described = describe_all(client, named)
    for topic, numbers in topics.items():
        every = [partition.id for partition in described[topic].partitions]
        wanted += [(topic, number) for number in (every if numbers is None else numbers)]
    for topic, number in wanted:
        if number >= len(described[topic].partitions):
            raise CliError(f"topic {topic} has no partition {number}")
    return wanted


def plan(
    client: AdminClient,
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> list[Move]:
    """The new offset of each partition; see `moves_to`."""
    starts, ends = offsets.earliest(client, partitions), offsets.latest(client, partitions)
    bounds = {key: (starts[key], ends[key]) for key in partitions}
    at_time: Mapping[TopicPartition, int] = {}
    if isinstance(target, StartPoint) and target.kind is Kind.TIME:
        at_time = offsets.at_time(client, partitions, target.number)
    return moves_to(target, bounds, committed, at_time)


def moves_to(
    target: Target,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    committed: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> list[Move]:
    """The new offset of each partition in `bounds` (log start and end). One that would lie outside
    the log becomes the nearest that does not, which is said on stderr."""
    moves = []
    for key, (start, end) in bounds.items():
        asked = _asked(target, key, committed.get(key), (start, end), at_time)
        taken = min(max(asked, start), end)
        if taken != asked:
            complain(
                f"warning: offset {asked} is outside [{start}, {end}] of {key[0]} "
                f"partition {key[1]}: {taken} is taken"
            )
        moves.append(Move(*key, committed.get(key), taken, start, end))
    return moves


def _asked(
    target: Target,
    key: TopicPartition,
    committed: int | None,
    bounds: tuple[int, int],
    at_time: Mapping[TopicPartition, int],
) -> int:
    start, end = bounds
    if isinstance(target, Mapping):
        return target[key]
    if isinstance(target, Shift):
        if committed is None:
            raise CliError(
                f"{key[0]} partition {key[1]} has no committed offset that could be shifted"
            )
        return committed + target.count
    if target.kind is Kind.EARLIEST:
        return start
    if target.kind is Kind.LATEST:
        return end
    if target.kind is Kind.BEFORE_END:
        return max(start, end - target.number)
    if target.kind is Kind.TIME:
        return at_time[key] if at_time[key] >= 0 else end
    return target.number


def show(moves: Sequence[Move]) -> None:
    """Print the moves for people."""
    table(COLUMNS, [move.cells() for move in moves])
