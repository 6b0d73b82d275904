"""What an assignor is told about a group, and what it answers.

No racks: the assignors of Kafka 4.1 do not look at them, and here every broker serves every
partition, so that a partition has no rack of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from towpath.groups.consumer.partitions import Partitions, no_partitions


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: the existing topics it is subscribed to, and its present target."""

    topic_ids: frozenset[uuid.UUID]
    assigned: Partitions = field(default_factory=no_partitions)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group: its members by id, and how many partitions each topic has."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[uuid.UUID, int]
    is_homogeneous: bool
    """Whether all members are subscribed to the same topics. May be false where it happens to be
    so, as far as topics exist."""

    def partition_count(self, topic_id: uuid.UUID) -> int:
        """How many partitions a subscribed topic has; AssignmentError if there is no such topic."""
        try:
            return self.partition_counts[topic_id]
        except KeyError:
            raise AssignmentError(f"Member is subscribed to unknown topic {topic_id}") from None


Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""Gives every partition of every subscribed topic to exactly one subscribed member.

A pure function: the answer depends on nothing but the group. Members that get nothing may be left
out of the answer.
"""


class AssignmentError(Exception):
    """The group cannot be assigned; nothing is known to cause it but a fault of the caller."""
