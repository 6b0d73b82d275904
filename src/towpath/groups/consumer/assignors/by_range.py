"""The assignor `range`: each topic is cut into consecutive ranges, one per subscribed member.

Topics with equally many partitions and the same subscribers are cut alike, so a member gets the
same partition numbers of each: records with one key meet in one member. It is sticky through its
order alone, as Kafka's: static members come first, by instance id, so that one which restarts under
another member id gets the ranges it had; the others follow by member id.
"""

from __future__ import annotations

import uuid

from towpath.groups.consumer.assignors.spec import GroupSpec
from towpath.groups.consumer.partitions import Partitions


def assign_ranges(group: GroupSpec) -> dict[str, Partitions]:
    """Every member's ranges."""
    ordered = sorted(
        group.members,
        key=lambda member_id: _place(group.members[member_id].instance_id, member_id),
    )
    subscribers: dict[uuid.UUID, list[str]] = {}
    for member_id in ordered:
        for topic_id in group.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    targets: dict[str, dict[uuid.UUID, frozenset[int]]] = {member_id: {} for member_id in ordered}
    for topic_id, members in subscribers.items():
        smallest, larger = divmod(group.partition_count(topic_id), len(members))
        start = 0
        for position, member_id in enumerate(members):
            end = start + smallest + (position < larger)
            if end > start:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def _place(instance_id: str | None, member_id: str) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)
