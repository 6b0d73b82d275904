"""Groups of the classic protocol for the load generator."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from typing import Any

from bench.groups.raw_member import RawMember
from bench.groups.wire import (
    ANSWER_TIMEOUT_S,
    RETRY_S,
    WrongAnswer,
    answer_of,
    connect,
    frame_of,
)
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest
from towpath.kafka.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27
SESSION_MS, REBALANCE_MS = 45_000, 60_000
TYPE, ASSIGNOR = "consumer", "range"


def subscription(topic: str) -> bytes:
    """What a consumer tells of itself: version 1, one topic, no data of its own, owns nothing."""
    name = topic.encode()
    return struct.pack(">hih", 1, 1, len(name)) + name + struct.pack(">ii", -1, 0)


def assignment(topic: str, partition: int) -> bytes:
    """What a leader gives to a member: version 1, one partition, no data."""
    name = topic.encode()
    return struct.pack(">hih", 1, 1, len(name)) + name + struct.pack(">iii", 1, partition, -1)


class ClassicMember(RawMember):
    """A member of a classic group."""

    def heartbeat_frame(self) -> bytes:
        return frame_of(self._heartbeat(), HEARTBEAT_VERSION)

    def is_stable(self, frame: bytes) -> bool:
        answer = answer_of(self._heartbeat(), HEARTBEAT_VERSION, frame)
        return bool(answer.error_code == 0)

    def _heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=self.epoch, member_id=self.member_id
        )

    async def join(self, topic: str) -> Any:
        """Join, and wait for the others; WrongAnswer if that is refused. Without an id, it is only
        given one."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type=TYPE,
            protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription(topic))],
        )
        expected = 0 if self.member_id else MEMBER_ID_REQUIRED
        answer = await self.connection.ask_ready(
            request, JOIN_VERSION, lambda a: 0 if a.error_code == expected else a.error_code or -1
        )
        self.member_id = answer.member_id
        self.epoch = answer.generation_id
        return answer

    async def until_rebalance(self) -> None:
        """Send heartbeats until one is answered that everybody has to join again."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < deadline:
            answer = await self.connection.ask(self._heartbeat(), HEARTBEAT_VERSION)
            if answer.error_code == REBALANCE_IN_PROGRESS:
                return
            await asyncio.sleep(RETRY_S)
        raise WrongAnswer("no rebalance in time")

    async def sync(self, assignments: dict[str, bytes]) -> None:
        """Give the assignments, or wait for them."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            protocol_type=TYPE,
            protocol_name=ASSIGNOR,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=what)
                for member_id, what in assignments.items()
            ],
        )
        await self.connection.ask_ready(request, SYNC_VERSION, lambda a: int(a.error_code))


async def form_classic(port: int, group_id: str, count: int, topic: str) -> list[ClassicMember]:
    """A stable group of so many members. All get their ids, then the first one joins alone, which
    makes it the leader; when the others come, it is told to join again, and everybody who has an id
    is waited for."""
    members = [ClassicMember(await connect(port), group_id, "") for _ in range(count)]
    await asyncio.gather(*(member.join(topic) for member in members))
    leader, *others = members
    await leader.join(topic)
    if others:
        joining = [asyncio.create_task(member.join(topic)) for member in others]
        await leader.until_rebalance()
        await asyncio.gather(leader.join(topic), *joining)
    given = {one.member_id: assignment(topic, number) for number, one in enumerate(members)}
    await asyncio.gather(leader.sync(given), *(member.sync({}) for member in others))
    return members


async def leave_classic(members: Sequence[ClassicMember]) -> None:
    """All members of one group leave at once."""
    leavers = [MemberIdentity(member_id=member.member_id) for member in members]
    request = LeaveGroupRequest(group_id=members[0].group_id, members=leavers)
    await members[0].connection.ask(request, LEAVE_VERSION)
    for member in members:
        member.connection.close()
