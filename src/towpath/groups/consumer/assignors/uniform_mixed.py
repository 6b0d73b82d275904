"""The uniform assignment of a group whose members are subscribed to different topics.

Three phases: members keep what they have of the topics they are subscribed to; partitions that
nobody has are dealt out to the least loaded subscribers; partitions move from the most to the least
loaded subscribers of their topic as long as that lessens the difference. The subscribers of one
topic then differ by at most one partition, unless they have other topics to blame.
"""

from __future__ import annotations

import heapq
import uuid

from towpath.groups.consumer.assignors.order import names_in_order, signed_order
from towpath.groups.consumer.assignors.spec import GroupSpec
from towpath.groups.consumer.partitions import Partitions, partitions_of

ROUNDS_MAX = 16
"""Rounds over all topics in the last phase; with overlapping subscriptions, each about halves the
imbalance that the one before left."""


def assign_mixed(group: GroupSpec) -> dict[str, Partitions]:
    """Every member's share."""
    shares = _Shares(group)
    shares.keep()
    for topic_id in shares.topics:
        shares.deal_out(topic_id)
    for _ in range(ROUNDS_MAX):
        moves = [shares.level(topic_id) for topic_id in shares.topics]
        if not any(moves):
            break
    return shares.targets()


class _Shares:
    """The assignment while it is made. Members are numbers, in the order of their table."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = names_in_order(group.members)
        self._loads = [0] * len(self._member_ids)
        self._subscribers: dict[uuid.UUID, list[int]] = {}
        for number, member_id in enumerate(self._member_ids):
            for topic_id in group.members[member_id].topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners: dict[uuid.UUID, list[int | None]] = {
            topic_id: [None] * group.partition_count(topic_id) for topic_id in self._subscribers
        }
        self.topics = sorted(self._subscribers, key=self._priority)

    def _priority(self, topic_id: uuid.UUID) -> tuple[float, int, tuple[int, int]]:
        """Topics with many partitions per subscriber first: the rest can still even them out."""
        subscribers = len(self._subscribers[topic_id])
        return -len(self._owners[topic_id]) / subscribers, subscribers, signed_order(topic_id)

    def keep(self) -> None:
        """Give every member what it has of the topics it is subscribed to."""
        for number, member_id in enumerate(self._member_ids):
            member = self._group.members[member_id]
            for topic_id, partitions in member.assigned.items():
                if topic_id in member.topic_ids:
                    self._loads[number] += len(partitions)
                    for partition in partitions:
                        self._owners[topic_id][partition] = number

    def deal_out(self, topic_id: uuid.UUID) -> None:
        """Give the topic's free partitions to its least loaded subscribers, one after the other."""
        owners = self._owners[topic_id]
        least = self._least_loaded(topic_id)
        for partition, owner in enumerate(owners):
            if owner is None:
                load, place, number = heapq.heappop(least)
                owners[partition] = number
                self._loads[number] += 1
                heapq.heappush(least, (load + 1, place, number))

    def level(self, topic_id: uuid.UUID) -> int:
        """Move the topic's partitions from the most to the least loaded; how many were moved."""
        loads = [self._loads[number] for number in self._subscribers[topic_id]]
        if max(loads) - min(loads) <= 1:
            return 0
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            if owner is not None:
                held.setdefault(owner, []).append(partition)
        least = self._least_loaded(topic_id)
        most = [(-load, -place, number) for load, place, number in least if number in held]
        heapq.heapify(most)
        moves = 0
        while most and -most[0][0] - least[0][0] > 1:
            giver, taker = heapq.heappop(most), heapq.heappop(least)
            self._owners[topic_id][held[giver[2]].pop()] = taker[2]
            self._loads[giver[2]] -= 1
            self._loads[taker[2]] += 1
            heapq.heappush(least, (taker[0] + 1, *taker[1:]))
            if held[giver[2]]:
                heapq.heappush(most, (giver[0] + 1, *giver[1:]))
            moves += 1
        return moves

    def _least_loaded(self, topic_id: uuid.UUID) -> list[tuple[int, int, int]]:
        """The topic's subscribers as a heap of load, place in the order of loads, and number."""
        by_load = sorted(self._subscribers[topic_id], key=lambda number: self._loads[number])
        return [(self._loads[number], place, number) for place, number in enumerate(by_load)]

    def targets(self) -> dict[str, Partitions]:
        """What every member has now."""
        numbers: list[dict[uuid.UUID, list[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    numbers[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: partitions_of(own.items())
            for member_id, own in zip(self._member_ids, numbers, strict=True)
        }
