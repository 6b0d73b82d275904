"""Heartbeat of a classic group: it changes nothing, so it is a question and not a step."""

from __future__ import annotations

from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode


def check_heartbeat(
    state: GroupState | None, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """What a member is told. With NONE or REBALANCE_IN_PROGRESS it counts as alive."""
    if not isinstance(state, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = state.check_member(member_id, instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation != state.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if state.phase is Phase.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
