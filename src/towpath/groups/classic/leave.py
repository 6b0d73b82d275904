"""LeaveGroup as a step, mostly of a classic group; one request may name many members."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.groups.classic.rebalance import rebalance_or_go_on, without
from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.consumer.leave import remove_members
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome
from towpath.kafka.codec.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Leaver:
    """Who is to leave: by member id, or by instance id alone (an administrator removes it)."""

    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """The members of one request."""

    leavers: tuple[Leaver, ...]

    def __call__(self, state: GroupState | None, env: Env) -> Outcome[tuple[ErrorCode, ...]]:
        """The step; it answers each leaver, in the order given."""
        if isinstance(state, ConsumerGroup):
            return remove_members(
                state, [(one.member_id, one.instance_id) for one in self.leavers], env
            )
        if not isinstance(state, ClassicGroup):
            return Outcome(state, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(self.leavers))
        group = state
        errors: list[ErrorCode] = []
        for leaver in self.leavers:
            group, error = _leave(group, leaver)
            errors.append(error)
        if ErrorCode.NONE in errors and group.phase is not Phase.EMPTY:
            group = rebalance_or_go_on(group, env)
        return Outcome(group, tuple(errors))


def _leave(group: ClassicGroup, leaver: Leaver) -> tuple[ClassicGroup, ErrorCode]:
    if not leaver.member_id:
        member_id = group.static_ids.get(leaver.instance_id or "")
        if leaver.instance_id is None or member_id is None:
            return group, ErrorCode.UNKNOWN_MEMBER_ID
        return without(group, [member_id]), ErrorCode.NONE
    if leaver.member_id not in group.pending:
        error = group.check_member(leaver.member_id, leaver.instance_id)
        if error is not ErrorCode.NONE:
            return group, error
    return without(group, [leaver.member_id]), ErrorCode.NONE
