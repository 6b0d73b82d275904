"""The uniform assignment of a group whose members are all subscribed to the same topics.

No two members differ by more than one partition. Who holds more than the common share keeps the one
more, as long as there are odd partitions left; the odd ones that nobody holds go to the last
members in order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from towpath.groups.consumer.assignors.order import names_in_order, topics_in_order
from towpath.groups.consumer.assignors.spec import GroupSpec, MemberSpec
from towpath.groups.consumer.partitions import Partitions, count, partitions_of, together

Pair = tuple[uuid.UUID, int]


def assign_same(group: GroupSpec) -> dict[str, Partitions]:
    """Every member's share. There is at least one member and one topic."""
    ordered = names_in_order(group.members)
    topic_ids = topics_in_order(group.members[ordered[0]].topic_ids)
    free = _held_by_nobody(group, topic_ids)
    total = sum(map(group.partition_count, topic_ids))
    share, odd = divmod(total, len(ordered))
    targets: dict[str, Partitions] = {}
    wanted: list[tuple[str, int]] = []
    for position, member_id in enumerate(ordered):
        takes_odd = odd > 0
        allowed = share + takes_odd
        kept, surplus = _keep(group.members[member_id], allowed)
        targets[member_id] = kept
        free += surplus
        missing = allowed - count(kept)
        if takes_odd and missing and len(ordered) - position > odd:
            # It has no odd partition yet, and enough others come that may have one.
            takes_odd, missing = False, missing - 1
        odd -= takes_odd
        if missing:
            wanted.append((member_id, missing))
    taken = 0
    for member_id, missing in wanted:
        more = _partitions(free[taken : taken + missing])
        targets[member_id] = together(targets[member_id], more)
        taken += missing
    return targets


def _held_by_nobody(group: GroupSpec, topic_ids: list[uuid.UUID]) -> list[Pair]:
    held = {topic_id: bytearray(group.partition_count(topic_id)) for topic_id in topic_ids}
    for member in group.members.values():
        for topic_id, numbers in member.assigned.items():
            marks = held.get(topic_id)
            if marks is not None:
                for number in numbers:
                    marks[number] = 1
    return [(topic_id, number) for topic_id in topic_ids for number in _unset(held[topic_id])]


def _unset(marks: bytearray) -> Iterable[int]:
    return (number for number, mark in enumerate(marks) if not mark)


def _keep(member: MemberSpec, allowed: int) -> tuple[Partitions, list[Pair]]:
    """What the member keeps of what it has, and what it has too many. Mostly it keeps everything,
    and then it is the very object."""
    if member.assigned.keys() <= member.topic_ids and count(member.assigned) <= allowed:
        return member.assigned, []
    has = [
        (topic_id, number)
        for topic_id in topics_in_order(member.assigned)
        if topic_id in member.topic_ids
        for number in sorted(member.assigned[topic_id])
    ]
    return _partitions(has[:allowed]), has[allowed:]


def _partitions(pairs: list[Pair]) -> Partitions:
    numbers: dict[uuid.UUID, list[int]] = {}
    for topic_id, number in pairs:
        numbers.setdefault(topic_id, []).append(number)
    return partitions_of(numbers.items())
