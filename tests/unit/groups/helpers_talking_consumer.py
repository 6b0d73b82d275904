"""A consumer of the consumer protocol that talks to coordinators in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.unit.groups.helpers_cluster import GROUP, Broker, World, eventually

from towpath.groups.consumer.partitions import Partitions, each, partitions_of
from towpath.groups.consumer.state import ConsumerGroup
from towpath.kafka.apis.consumer_group_heartbeat import handle_consumer_group_heartbeat
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

_NUMBERS = itertools.count()

COMES_AGAIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
TRIES_AGAIN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


@dataclass
class TalkingConsumer:
    """It joins, does what it is told, and sends heartbeats; fenced, it starts over."""

    broker: Broker
    topics: Sequence[str] = ("orders",)
    regex: str | None = None
    instance_id: str | None = None
    rebalance_timeout_ms: int = 60_000
    never_gives_up: bool = False
    """It keeps what it has, whatever it is told."""
    member_id: str = field(default_factory=lambda: f"member-{next(_NUMBERS)}")
    epoch: int = 0
    owns: Partitions = field(default_factory=dict)
    acknowledges: bool = False
    errors: list[ErrorCode] = field(default_factory=list)
    answers: list[ConsumerGroupHeartbeatResponse] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def start(self) -> TalkingConsumer:
        """Run until stopped."""
        self.task = asyncio.create_task(self._run())
        return self

    async def crash(self) -> None:
        """Fall silent without a word."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None
        self.owns = {}

    async def leave(self, epoch: int = -1) -> ErrorCode:
        """Stop and say so."""
        await self.crash()
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )
        answer = await handle_consumer_group_heartbeat(request, self.broker.context(1))
        assert answer is not None
        return ErrorCode(answer.error_code)

    async def _run(self) -> None:
        while True:
            answer = await self.beat()
            at_once = self.acknowledges
            await asyncio.sleep(0.01 if at_once else (answer.heartbeat_interval_ms or 500) / 1000)

    async def beat(self) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat."""
        is_joining = self.epoch == 0
        reported = self.owns if self.acknowledges else {} if is_joining else None
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms if is_joining else -1,
            subscribed_topic_names=list(self.topics) if is_joining else None,
            subscribed_topic_regex=self.regex if is_joining else None,
            topic_partitions=None if reported is None else _sent(reported),
        )
        self.acknowledges = False
        answer = await handle_consumer_group_heartbeat(request, self.broker.context(1))
        assert answer is not None
        self._take(answer)
        return answer

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.answers.append(answer)
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self.errors.append(error)
            assert error in (*COMES_AGAIN, *TRIES_AGAIN), answer.error_message
            if error in COMES_AGAIN:
                self.epoch, self.owns = 0, {}
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None and not self.never_gives_up:
            found = answer.assignment.topic_partitions
            self.owns = partitions_of((topic.topic_id, topic.partitions) for topic in found)
            self.acknowledges = True


def _sent(partitions: Partitions) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in partitions.items()
    ]


async def state_of(broker: Broker) -> ConsumerGroup:
    """The group as a broker sees it."""
    state = (await broker.groups.view(GROUP)).state
    assert isinstance(state, ConsumerGroup)
    return state


async def all_assigned(
    members: Sequence[TalkingConsumer], partitions: int, within_s: float = 600.0
) -> None:
    """Wait until the members own this many partitions, each exactly one of them."""

    def done() -> bool:
        owned = [pair for member in members for pair in each(member.owns)]
        assert len(owned) == len(set(owned)), "a partition has two owners"
        return len(owned) == partitions and all(member.owns for member in members)

    await eventually(done, within_s)


def writes(world: World) -> int:
    """How often the groups' keys were written, sessions and leases included."""
    return sum(sum(broker.store.writes.values()) for broker in world.brokers)
