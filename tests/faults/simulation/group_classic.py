"""A member of a classic group: it joins, syncs and beats, and assigns partitions if it leads."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.group_member import MOVES, RETRY_S, GroupMember, Surroundings
from tests.faults.simulation.group_observer import Asked
from tests.faults.simulation.group_truth import Place, decode_places, encode_places
from tests.faults.simulation.wire import Wire

from towpath.groups.classic.heartbeat import check_heartbeat
from towpath.groups.classic.state import ClassicGroup
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest
from towpath.kafka.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
PADDING_BYTES = 60
WAIT_S = 25.0
"""How long a patient member waits for the others."""
LEFT_BEHIND = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)


class ClassicMember(GroupMember):
    """One life of one member. What its group shares is told by its assignment."""

    COMMIT_VERSIONS = (5, 7, 8, 9, 10)

    def __init__(
        self,
        world: Surroundings,
        wire: Wire,
        chance: Chance,
        group_id: str,
        instance_id: str | None,
    ) -> None:
        super().__init__(world, wire, chance, group_id, instance_id)
        static = instance_id is not None
        self._join_version = chance.pick(5, 7, 9) if static else chance.pick(2, 4, 5, 7, 9)
        if static:
            self._version = max(self._version, 7)
        self._is_in = False
        self._leads = False
        self._topics: list[str] = []
        """The topics that it last assigned, as the leader."""
        self._rejoin_s: float | None = None
        """When it joins again, once told to."""
        names = chance.pick(("range",), ("range", "roundrobin"), ("roundrobin", "range"))
        metadata = subscription(["topic-0", "topic-1"], wire.name.encode())
        self._protocols = [JoinGroupRequestProtocol(name=n, metadata=metadata) for n in names]

    async def _turn(self) -> None:
        if self._rejoin_s is not None and self.now_s() >= self._rejoin_s:
            await self._commit(self.owned & self._committed.keys())
            self._is_in = False
        if not self._is_in:
            await self._join()
            return
        await self._beat()
        if self._is_in and self.owned:
            await self._work()
        interval_s = self._scenario.heartbeat_ms / 1000
        await asyncio.sleep(interval_s * self._chance.uniform(0.7, 1.0))

    # Joining

    async def _join(self) -> None:
        """Be part of a generation, or find out why not yet."""
        self._rejoin_s = None
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._scenario.session_ms,
            rebalance_timeout_ms=self._scenario.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._protocols,
        )
        wait_s = self._chance.pick(0.5, WAIT_S, WAIT_S, WAIT_S)
        answer, asked = await self._ask(request, self._join_version, wait_s=wait_s)
        error = self._observer.answered(
            "JoinGroup",
            asked,
            answer.error_code,
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )
        if error is ErrorCode.NONE:
            self._joined(answer, asked)
            await self._sync(answer)
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        else:
            await self._fall_back(error, asked)

    def _joined(self, answer: Any, asked: Asked) -> None:
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        self._leads = answer.leader == self.member_id

        def fits(state: GroupState | None) -> bool:
            return (
                isinstance(state, ClassicGroup)
                and state.generation == self.epoch
                and self.member_id in state.members
            )

        self._observer.expect_state("JoinGroup", asked, fits, f"{self.member_id}@{self.epoch}")

    async def _sync(self, joined: Any) -> None:
        assignments = self._assign(joined) if joined.members else {}
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_places(places))
                for member_id, places in assignments.items()
            ],
        )
        version = 5 if self._join_version >= 7 else 3
        answer, asked = await self._ask(request, version, wait_s=WAIT_S)
        error = self._observer.answered("SyncGroup", asked, answer.error_code, *LEFT_BEHIND)
        if error is not ErrorCode.NONE:
            await self._fall_back(error, asked)
            return
        told = bytes(answer.assignment)

        def fits(state: GroupState | None) -> bool:
            member = state.members.get(self.member_id) if isinstance(state, ClassicGroup) else None
            return (
                isinstance(state, ClassicGroup)
                and member is not None
                and state.generation == self.epoch
                and member.assignment == told
            )

        self._observer.expect_state("SyncGroup", asked, fits, told)
        self._observer.alive(asked)
        self._is_in = True
        self.owns(decode_places(told))

    def _assign(self, joined: Any) -> dict[str, list[Place]]:
        """Each partition to one of the members, in turn."""
        members = sorted(member.member_id for member in joined.members)
        self._topics = self._observer.topics.usable()
        created = self._observer.topics.created
        places = [(topic, n) for topic in self._topics for n in range(created[topic])]
        return {
            member_id: places[number :: len(members)] for number, member_id in enumerate(members)
        }

    # Staying

    async def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        answer, asked = await self._ask(request, self._chance.pick(3, 4))
        error = self._observer.answered("Heartbeat", asked, answer.error_code, *LEFT_BEHIND)
        self._judge(asked, error)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self._rejoin_s is None:
                self._rejoin_s = self.now_s() + self._laziness_s()
        elif error is not ErrorCode.NONE:
            await self._fall_back(error, asked)
        elif self._leads and self._topics != self._observer.topics.usable():
            self._is_in = False  # The topics have changed: whoever leads joins again.

    def _judge(self, asked: Asked, error: ErrorCode) -> None:
        """A heartbeat's answer is what the group says at the time."""
        if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            return

        def fits(state: GroupState | None) -> bool:
            told = check_heartbeat(state, asked.member_id, asked.instance_id, asked.epoch)
            return told is error

        self._observer.expect_state("Heartbeat", asked, fits, error.name)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._observer.alive(asked)

    def _laziness_s(self) -> float:
        if not self._chance.happens(self._scenario.lazy_share):
            return 0.0
        return self._chance.uniform(0.0, 1.2) * self._scenario.rebalance_ms / 1000

    def _judge_commit(self, asked: Asked, code: int) -> None:
        error = self._observer.answered("OffsetCommit", asked, code, *LEFT_BEHIND)
        if error is ErrorCode.NONE:
            self._observer.alive(asked)

    async def _fall_back(self, error: ErrorCode, asked: Asked) -> None:
        """Start over, as far as the error demands."""
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._observer.lives.waited_in_vain(asked.who, asked.sent_s, asked.node)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id, self.epoch = "", -1
        if error in LEFT_BEHIND:
            self._is_in = False
            self.owns(frozenset())
        else:
            await asyncio.sleep(RETRY_S)
            if self._chance.happens(10 * MOVES):
                self.wire.close()

    async def _goodbye(self) -> bool:
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)],
        )
        version = 3 if self.instance_id is not None else self._chance.pick(1, 3, 5)
        answer, asked = await self._ask(request, version)
        code = answer.error_code
        if version >= 3 and code == ErrorCode.NONE:
            code = answer.members[0].error_code
        error = self._observer.answered(
            "LeaveGroup", asked, code, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
        )
        return error in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        )


def subscription(topics: Sequence[str], user_data: bytes) -> bytes:
    """A consumer's metadata."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    data = user_data.ljust(PADDING_BYTES, b".")
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(data)) + data
