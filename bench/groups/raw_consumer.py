"""Groups of the consumer protocol (KIP-848) for the load generator."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from bench.groups.raw_member import RawMember
from bench.groups.wire import WrongAnswer, answer_of, connect, frame_of
from towpath.kafka.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

HEARTBEAT_VERSION = 1
LEAVE_EPOCH = -1
REBALANCE_MS = 60_000
ROUNDS_MAX = 50
"""How often everybody's heartbeat is sent until the group is stable."""

Partitions = dict[UUID, list[int]]


class ConsumerMember(RawMember):
    """A member of a group whose assignments the broker makes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.interval_ms = 0
        self.assigned: Partitions = {}
        self.must_tell = False
        """Whether the broker does not know yet that it has what it was assigned."""

    def heartbeat_frame(self) -> bytes:
        return frame_of(self._heartbeat(self.epoch), HEARTBEAT_VERSION)

    def is_stable(self, frame: bytes) -> bool:
        answer = answer_of(self._heartbeat(self.epoch), HEARTBEAT_VERSION, frame)
        is_same = answer.member_epoch == self.epoch and answer.assignment is None
        return bool(answer.error_code == 0 and is_same)

    def _heartbeat(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch
        )

    async def join(self, topic: str) -> None:
        """Join the group."""
        request = self._heartbeat(0)
        request.rebalance_timeout_ms = REBALANCE_MS
        request.subscribed_topic_names = [topic]
        request.topic_partitions = []
        await self._ask(request)

    async def beat(self) -> bool:
        """A heartbeat that tells what it has, if that is news; whether anything has changed."""
        request = self._heartbeat(self.epoch)
        told, before = self.must_tell, (self.epoch, self.assigned)
        if told:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=numbers)
                for topic, numbers in self.assigned.items()
            ]
        self.must_tell = False
        await self._ask(request)
        return told or (self.epoch, self.assigned) != before

    async def leave(self) -> None:
        """Leave for good."""
        await self.connection.ask(self._heartbeat(LEAVE_EPOCH), HEARTBEAT_VERSION)
        self.connection.close()

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self.connection.ask_ready(
            request, HEARTBEAT_VERSION, lambda a: int(a.error_code)
        )
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            self.assigned = {part.topic_id: list(part.partitions) for part in parts}
            self.must_tell = True


async def form_consumer(port: int, group_id: str, count: int, topic: str) -> list[ConsumerMember]:
    """A group of so many members in which nothing moves any more."""
    members = [
        ConsumerMember(await connect(port), group_id, str(uuid.uuid4())) for _ in range(count)
    ]
    await asyncio.gather(*(member.join(topic) for member in members))
    for _ in range(ROUNDS_MAX):
        if not any(await asyncio.gather(*(member.beat() for member in members))):
            return members
    raise WrongAnswer(f"group {group_id} does not become stable")


async def leave_consumer(members: Sequence[ConsumerMember]) -> None:
    """All members of one group leave at once."""
    await asyncio.gather(*(member.leave() for member in members))
