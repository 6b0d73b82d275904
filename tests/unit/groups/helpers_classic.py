"""A classic group under test: its state machine without a store, and requests with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from towpath.groups.classic.answers import JoinAnswer, SyncAnswer, Waiting, joined, synced
from towpath.groups.classic.heartbeat import check_heartbeat
from towpath.groups.classic.join import JoinRequest
from towpath.groups.classic.leave import Leaver, LeaveRequest
from towpath.groups.classic.member import Protocol
from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.classic.sync import SyncRequest
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Step, Timer
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields
from towpath.topics.interface import Topics

R = TypeVar("R")

WALL_MS = 1_700_000_000_000
LATEST = 9


def protocols(*names: str, metadata: bytes = b"m") -> tuple[Protocol, ...]:
    """What a member offers."""
    return tuple(Protocol(name, metadata) for name in names)


def join_request(
    member_id: str = "",
    *,
    offers: tuple[Protocol, ...] = protocols("range"),
    instance_id: str | None = None,
    protocol_type: str = "consumer",
    version: int = LATEST,
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
    client_id: str = "c",
) -> JoinRequest:
    """A JoinGroup with what does not matter filled in."""
    return JoinRequest(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host="/127.0.0.1",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=protocol_type,
        protocols=offers,
        api_version=version,
    )


@dataclass
class ClassicRig:
    """A group in memory; steps are applied at once. Every state is packed and unpacked again."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    state: GroupState | None = None
    wall_ms: int = WALL_MS
    ids: int = 0

    @property
    def group(self) -> ClassicGroup:
        """The group, which there is."""
        assert isinstance(self.state, ClassicGroup)
        return self.state

    def is_in(self, phase: Phase) -> bool:
        """Whether the group is in this phase."""
        return self.group.phase is phase

    def env(self) -> Env:
        """What steps see."""
        return Env(0, self.wall_ms, self.settings, cast(Topics, None), self._new_id)

    def apply(self, step: Step[R]) -> R:
        """Apply a step, twice if it has changed something: the first time was in vain."""
        before = self.ids
        first = step(self.state, self.env())
        if first.group is self.state:
            return first.answer
        self.ids = before
        again = step(self.state, self.env())
        assert again == first
        self.state = _stored(again.group)
        assert self.state == again.group
        return again.answer

    def join(self, *args: Any, **kwargs: Any) -> JoinAnswer | Waiting:
        """JoinGroup."""
        return self.apply(join_request(*args, **kwargs))

    def add(self, **kwargs: Any) -> str:
        """A member that joins with its id; its id. It may have to wait."""
        required = self.join("", **kwargs)
        if isinstance(required, JoinAnswer) and required.error is ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.join(required.member_id, **kwargs)
        else:
            answer = required
        assert isinstance(answer, Waiting) or answer.error is ErrorCode.NONE
        return answer.member_id

    def answer_of(self, member_id: str, instance_id: str | None = None) -> JoinAnswer | None:
        """What a member that waits in JoinGroup is answered now."""
        return joined(self.state, member_id, instance_id)

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncAnswer | Waiting:
        """SyncGroup."""
        current = self.state.epoch if self.state is not None else 0
        return self.apply(
            SyncRequest(
                member_id,
                instance_id,
                current if generation is None else generation,
                protocol_type,
                protocol_name,
                assignments or {},
            )
        )

    def sync_answer_of(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> SyncAnswer | None:
        """What a member that waits in SyncGroup is answered now."""
        return synced(self.state, member_id, instance_id, generation)

    def beat(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        """Heartbeat."""
        current = self.state.epoch if self.state is not None else 0
        return check_heartbeat(
            self.state, member_id, instance_id, current if generation is None else generation
        )

    def leave(self, *leavers: tuple[str, str | None]) -> tuple[ErrorCode, ...]:
        """LeaveGroup."""
        return self.apply(LeaveRequest(tuple(Leaver(*leaver) for leaver in leavers)))

    def timers(self) -> dict[str, Timer]:
        """What is to become due, by the first part of its name and the member."""
        found = () if self.state is None else self.state.timers(self.settings)
        return {timer.name: timer for timer in found}

    def fire(self, name: str) -> None:
        """A timer is due."""
        self.apply(self.timers()[name].step)

    def stable(self, count: int = 1, **kwargs: Any) -> list[str]:
        """A stable group of so many members; the first one leads."""
        first = self.add(**kwargs)
        members = [first]
        for _ in range(count - 1):
            members.append(self.add(**kwargs))
            self.join(first, **kwargs)
            for member_id in members[1:-1]:
                self.join(member_id, **kwargs)
        name = kwargs.get("offers", protocols("range"))[0].name
        kind = kwargs.get("protocol_type", "consumer")
        assignments = {m: m.encode() for m in members}
        for member_id in members:
            self.sync(member_id, assignments, protocol_name=name, protocol_type=kind)
        assert self.group.state_name == "Stable"
        return members

    def _new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"


def _stored(state: GroupState | None) -> GroupState | None:
    if state is None:
        return None
    contents: list[bytes] = []

    def put(content: bytes) -> str:
        contents.append(content)
        return str(len(contents) - 1)

    fields = state.pack(put)
    return type(state).unpack(Fields(fields), lambda name: contents[int(name)])
