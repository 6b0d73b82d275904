"""What `towpath groups list` and `describe` tell about groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from towpath.cli.group_admin import Group, Member

if TYPE_CHECKING:
    from towpath.cli.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group. None: there is no such thing, or it is not known."""

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    first_unread_ms: int | None
    """The timestamp of the first record that the group has not read."""
    member: Member | None

    @property
    def lag(self) -> int | None:
        """How many offsets the group has yet to read."""
        if self.committed is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.committed)

    def lag_ms(self, now_ms: int) -> int | None:
        """How old the first unread record is; 0 if there is none."""
        if self.lag is None or self.lag == 0:
            return self.lag
        return None if self.first_unread_ms is None else max(0, now_ms - self.first_unread_ms)

    def as_json(self, now_ms: int) -> dict[str, object]:
        """The partition for programs."""
        lag_ms = self.lag_ms(now_ms)
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed_offset": self.committed,
            "log_end": self.log_end,
            "lag": self.lag,
            "lag_seconds": None if lag_ms is None else lag_ms / 1000,
            "first_unread": _iso(self.first_unread_ms) if self.lag else None,
            "member_id": None if self.member is None else self.member.member_id,
        }


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group with its partitions, at one moment."""

    group: Group
    partitions: Sequence[PartitionLag]
    now_ms: int

    @property
    def lag(self) -> int | None:
        """Of all partitions; None if no offset is committed."""
        known = [each.lag for each in self.partitions if each.lag is not None]
        return sum(known) if known else None

    @property
    def lag_ms(self) -> int | None:
        """That of the partition which is farthest behind; None if none is known."""
        known = [each.lag_ms(self.now_ms) for each in self.partitions]
        return max((each for each in known if each is not None), default=None)

    def summary(self) -> dict[str, object]:
        """The group in a listing for programs."""
        return {
            "group": self.group.name,
            "type": self.group.kind,
            "state": self.group.state,
            "members": len(self.group.members),
            "lag": self.lag,
        }

    def as_json(self) -> dict[str, object]:
        """Everything for programs."""
        group, lag_ms = self.group, self.lag_ms
        return {
            "group": group.name,
            "type": group.kind,
            "state": group.state,
            "coordinator": {
                "id": group.coordinator.broker_id,
                "host": group.coordinator.host,
                "port": group.coordinator.port,
            },
            "assignor": group.assignor or None,
            "lag": self.lag,
            "lag_seconds": None if lag_ms is None else lag_ms / 1000,
            "members": [_member_json(member) for member in group.members],
            "partitions": [each.as_json(self.now_ms) for each in self.partitions],
        }


def partition_lags(
    group: Group,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    timestamps_ms: Mapping[TopicPartition, int],
) -> list[PartitionLag]:
    """Every partition that has a committed offset or a member, in order."""
    owners = {key: member for member in group.members for key in member.partitions}
    return [
        PartitionLag(
            topic=key[0],
            partition=key[1],
            committed=committed.get(key),
            log_end=ends.get(key),
            first_unread_ms=timestamps_ms.get(key),
            member=owners.get(key),
        )
        for key in sorted({*committed, *owners})
    ]


def behind(
    committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The committed offsets after which there is something to read."""
    return {key: at for key, at in committed.items() if at < ends.get(key, at)}


def assignment(member: Member) -> dict[str, list[int]]:
    """The member's partitions by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in member.partitions:
        found.setdefault(topic, []).append(number)
    return found


def _member_json(member: Member) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "assignment": assignment(member),
    }


def _iso(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
