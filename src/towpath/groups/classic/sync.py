"""SyncGroup as a step of a classic group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from towpath.groups.classic.answers import SyncAnswer, Waiting, sync_answer
from towpath.groups.classic.member import NO_ASSIGNMENT
from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome
from towpath.kafka.codec.error_codes import ErrorCode

SyncOutcome = Outcome[SyncAnswer | Waiting]


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A member asks for its assignment; the leader brings those of all members."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]

    def __call__(self, state: GroupState | None, env: Env) -> SyncOutcome:
        """The step."""
        if not isinstance(state, ClassicGroup) or state.is_empty:
            return Outcome(state, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        error = self._check(state)
        if error is not ErrorCode.NONE:
            return Outcome(state, SyncAnswer(error))
        group = _has_asked(state, self.member_id)
        if group.phase is Phase.STABLE:
            return Outcome(group, sync_answer(group, self.member_id))
        if not group.is_leader(self.member_id):
            return Outcome(group, Waiting(self.member_id))
        group = self._assigned(group, env)
        return Outcome(group, sync_answer(group, self.member_id))

    def _check(self, group: ClassicGroup) -> ErrorCode:
        error = group.check_member(self.member_id, self.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if self.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.protocol_type not in (None, group.group_protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.protocol_name not in (None, group.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.phase is Phase.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _assigned(self, group: ClassicGroup, env: Env) -> ClassicGroup:
        """The generation is complete. Members that the leader left out get nothing."""
        members = {
            member_id: replace(member, assignment=self.assignments.get(member_id, NO_ASSIGNMENT))
            for member_id, member in group.members.items()
        }
        return replace(group, phase=Phase.STABLE, members=members, since_ms=env.wall_ms)


def _has_asked(group: ClassicGroup, member_id: str) -> ClassicGroup:
    member = group.members[member_id]
    return group.with_member(replace(member, owes_sync=False)) if member.owes_sync else group
