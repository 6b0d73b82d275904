"""A member of a consumer-protocol group: it beats, gives up what it must, and takes what is new."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.group_member import (
    MOVES,
    RETRY_S,
    GroupMember,
    Surroundings,
    topic_names,
)
from tests.faults.simulation.group_observer import Asked
from tests.faults.simulation.group_truth import Place
from tests.faults.simulation.wire import Wire

from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
SUBSCRIPTIONS: tuple[tuple[list[str] | None, str | None], ...] = (
    (["topic-0", "topic-1"], None),
    (None, "topic-.*"),
)
"""Names, or a regular expression (since version 1)."""
FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
TELLS_ALL = 0.1
"""How often a member tells everything though it need not."""


class ConsumerMember(GroupMember):
    """One life of one member."""

    COMMIT_VERSIONS = (9, 10)

    def __init__(
        self,
        world: Surroundings,
        wire: Wire,
        chance: Chance,
        group_id: str,
        instance_id: str | None,
    ) -> None:
        super().__init__(world, wire, chance, group_id, instance_id)
        self.epoch = JOINING
        self._beat_version = chance.pick(0, 1, 1)
        if self._beat_version >= 1:
            self.member_id = self._new_id()
        self._names, self._regex = chance.pick(*SUBSCRIPTIONS[: self._beat_version + 1])
        self._assignor = chance.pick(None, "uniform", "range")
        self._told: frozenset[Place] = frozenset()
        """What it shall use."""
        self._reported: frozenset[Place] | None = None
        """What it has last told to use; None if it must tell again."""
        self._tells_all = True
        self._obeys_s = 0.0
        """When it has done what it must before it gives up partitions."""
        self._leaving_epoch = LEAVING
        if instance_id is not None:
            self._leaving_epoch = chance.pick(LEAVING, LEAVING_FOR_A_WHILE)

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128)))

    async def _turn(self) -> None:
        await self._beat()
        if self.epoch > JOINING:
            if self.now_s() >= self._obeys_s and await self._obey():
                return
            await self._work()
        interval_s = self._scenario.heartbeat_ms / 1000
        await asyncio.sleep(interval_s * self._chance.uniform(0.7, 1.0))

    def owns(self, places: frozenset[Place]) -> None:
        super().owns(places)
        if self.member_id:
            self._observer.owns(self.group_id, self.member_id, places)

    def _lost_answer(self) -> None:
        super()._lost_answer()
        self._tells_all = True

    # Heartbeats

    async def _beat(self) -> None:
        told, request = self.owned, self._heartbeat()
        answer, asked = await self._ask(request, self._beat_version)
        error = self._observer.answered("ConsumerGroupHeartbeat", asked, answer.error_code, *FENCED)
        if error is ErrorCode.NONE:
            self._tells_all, self._reported = False, told
            self._take(answer, asked)
        elif error in FENCED:
            self._start_over(error)
            await asyncio.sleep(RETRY_S * self._chance.uniform(1.0, 5.0))
        else:
            self._tells_all = True
            await asyncio.sleep(RETRY_S)
            if self._chance.happens(10 * MOVES):
                self.wire.close()

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        joins = self.epoch == JOINING
        full = joins or self._tells_all or self._chance.happens(TELLS_ALL)
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            by_topic.setdefault(topic, []).append(partition)
        ids = self._observer.topics.ledger.topics
        reported = [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=ids[topic].topic_id, partitions=numbers
            )
            for topic, numbers in by_topic.items()
        ]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self._scenario.rebalance_ms if full else -1,
            subscribed_topic_names=self._names if full else None,
            subscribed_topic_regex=self._regex if full else None,
            server_assignor=self._assignor if full else None,
            topic_partitions=reported if full or self.owned != self._reported else None,
        )

    def _take(self, answer: Any, asked: Asked) -> None:
        if self.epoch > answer.member_epoch:
            self._observer.journal.fail(
                f"{asked.who} was told epoch {answer.member_epoch} after {self.epoch}"
            )
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        self._observer.lives.heard((self.group_id, self.member_id), asked.sent_s, asked.node)
        told = None if answer.assignment is None else self._places(answer.assignment)
        self._judge(asked, told)
        if told is not None and told != self._told:
            self._told = told
            self._obeys_s = self.now_s()
            if self.owned - told and self._chance.happens(self._scenario.lazy_share):
                late_s = self._scenario.rebalance_ms / 1000
                self._obeys_s += self._chance.uniform(0.0, 1.2) * late_s

    def _places(self, assignment: Any) -> frozenset[Place]:
        names = topic_names(self._observer)
        return frozenset(
            (names[topic.topic_id], number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )

    def _judge(self, asked: Asked, told: frozenset[Place] | None) -> None:
        """The answer is what the group had for the member at the time."""
        names = topic_names(self._observer)

        def fits(state: GroupState | None) -> bool:
            if not isinstance(state, ConsumerGroup):
                return True
            member = state.members.get(self.member_id)
            if member is None:
                return True
            places = {
                (names[topic_id], number)
                for topic_id, numbers in member.assigned.items()
                for number in numbers
            }
            if member.previous_epoch == self.epoch != member.epoch:
                # An older request of this member, which nobody waits for, came after it, and both
                # were stored at once: nobody saw what was in between.
                return True
            return member.epoch == self.epoch and (told is None or places == told)

        self._observer.expect_state("ConsumerGroupHeartbeat", asked, fits, (self.epoch, told))

    async def _obey(self) -> bool:
        """Come to use what it shall; whether it has to say so at once."""
        lost = self.owned - self._told
        if lost:
            await self._commit(lost & self._committed.keys())
        if self.owned == self._told:
            return False
        self.owns(self.owned & self._told)
        if lost and self._chance.happens(0.5):
            return True  # It takes what is new after it has told what it gave up.
        self.owns(self._told)
        return True

    def _start_over(self, error: ErrorCode) -> None:
        self.owns(frozenset())
        self._told = frozenset()
        self.epoch, self._tells_all, self._reported = JOINING, True, None
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.member_id = self._new_id() if self._beat_version >= 1 else ""

    def _judge_commit(self, asked: Asked, code: int) -> None:
        self._observer.answered(
            "OffsetCommit",
            asked,
            code,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.GROUP_ID_NOT_FOUND,
        )

    async def _goodbye(self) -> bool:
        self.owns(frozenset())
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._leaving_epoch,
            instance_id=self.instance_id,
        )
        answer, asked = await self._ask(request, self._beat_version)
        error = self._observer.answered("ConsumerGroupHeartbeat", asked, answer.error_code, *FENCED)
        return error is ErrorCode.NONE or error in FENCED

    @property
    def leaves_for_good(self) -> bool:
        return self._leaving_epoch == LEAVING
