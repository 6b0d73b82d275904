"""A member of a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.integration.groups_golden.scene import Peer, Scene
from tests.integration.harness.waiting import wait_until

from towpath.kafka.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from towpath.kafka.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

HEARTBEAT_LAST = 1
REBALANCE_MS = 30_000
RESOLVED_TIMEOUT_S = 30.0
LEAVE, LEAVE_STATIC = -1, -2

Partitions = Mapping[str, Sequence[int]]


class Consumer:
    """One consumer, which remembers its id, its epoch and what it was assigned. Its member id is
    its name, as a client of v1 makes up its own."""

    def __init__(
        self,
        scene: Scene,
        name: str,
        *,
        instance: str | None = None,
        rack: str | None = None,
        group: str | None = None,
        member_id: str | None = None,
    ) -> None:
        self.peer: Peer = scene.peer(name)
        self.group = group or scene.group
        self.instance = instance
        self.rack = rack
        self.member_id = name if member_id is None else member_id
        self.epoch = 0
        self.assigned: dict[str, list[int]] = {}
        self._scene = scene

    def request(
        self,
        *,
        epoch: int | None = None,
        member_id: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        owned: Partitions | None = None,
    ) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat with these fields, and the member's id, epoch and instance id."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id if member_id is None else member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None if owned is None else self._owned(owned),
        )

    def join_request(
        self,
        topics: Sequence[str] | None = None,
        *,
        rebalance_ms: int = REBALANCE_MS,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatRequest:
        """The full heartbeat of a member that joins."""
        full: dict[str, Any] = {"epoch": 0, "owned": {}, "instance": self.instance}
        full |= {"rack": self.rack} | fields
        return self.request(topics=topics, rebalance_ms=rebalance_ms, **full)

    def join(
        self, topics: Sequence[str] | None = None, *, version: int = HEARTBEAT_LAST, **fields: Any
    ) -> Any:
        """Join the group."""
        request = self.join_request(topics, **fields)
        return self.told(self.peer.ask(request, version))

    def join_resolved(self, topics: Sequence[str] | None = None, *, regex: str) -> Any:
        """Join with a regular expression; what is recorded as the answer is the one that comes
        when the broker has resolved it, which Kafka does after the first answer."""
        return self._resolved(self.join_request(topics, regex=regex))

    def change_resolved(self, *, regex: str) -> Any:
        """Change the expression; recorded is the answer that comes when it is resolved."""
        return self._resolved(self.request(regex=regex))

    def _resolved(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        first = self.peer.send(request, HEARTBEAT_LAST)
        known = sum(map(len, self.assigned.values()))
        answers = [self.told(first.read())]

        def is_resolved() -> bool:
            if sum(map(len, self.assigned.values())) != known:
                return True
            answers.append(self.told(self.peer.send(self.request(), HEARTBEAT_LAST).read()))
            return False

        wait_until(is_resolved, "resolved", timeout_s=RESOLVED_TIMEOUT_S)
        self._scene.record_answer(self.peer.name, first, answers[-1])
        return answers[-1]

    def heartbeat(self, *, version: int = HEARTBEAT_LAST, **fields: Any) -> Any:
        """A heartbeat that says only what is named."""
        return self.told(self.peer.ask(self.request(**fields), version))

    def acknowledge(self, **fields: Any) -> Any:
        """Report as owned what was assigned last."""
        return self.heartbeat(owned=self.assigned, **fields)

    def heartbeat_until(
        self, enough: Callable[[Any], bool], what: str, *, version: int = 1, **fields: Any
    ) -> Any:
        """Repeat a heartbeat until its answer is `enough`; only that one is recorded."""
        return self.told(self.peer.ask_until(self.request(**fields), enough, what, version))

    def until_assigned(self, **fields: Any) -> Any:
        """Repeat a heartbeat until an assignment comes."""
        return self.heartbeat_until(lambda a: a.assignment is not None, "an assignment", **fields)

    def until_error(self, **fields: Any) -> Any:
        """Repeat a heartbeat until it is refused."""
        return self.heartbeat_until(lambda a: a.error_code != 0, "an error", **fields)

    def leave(self, epoch: int = LEAVE, **fields: Any) -> Any:
        """Leave for good, or for a while as a static member."""
        request = self.request(epoch=epoch, instance=self.instance, **fields)
        return self.peer.ask(request)

    def told(self, answer: Any) -> Any:
        """Keep what an answer says."""
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
            if answer.assignment is not None:
                names = {UUID(known): name for name, known in self._scene.topic_ids.items()}
                self.assigned = {
                    names[entry.topic_id]: list(entry.partitions)
                    for entry in answer.assignment.topic_partitions
                }
        return answer

    def _owned(self, owned: Partitions) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=UUID(self._scene.topic_ids[topic]), partitions=list(partitions)
            )
            for topic, partitions in sorted(owned.items())
        ]


def describe_consumers(peer: Peer, *groups: str, version: int = 1, operations: bool = False) -> Any:
    """ConsumerGroupDescribe."""
    request = ConsumerGroupDescribeRequest(
        group_ids=list(groups), include_authorized_operations=operations
    )
    return peer.ask(request, version)
