"""What members are answered, and what they wait for.

`Waiting` is not an answer: the request waits until the group has a state for which `joined` or
`synced` answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from towpath.groups.classic.state import NO_GENERATION, ClassicGroup, Phase
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class ListedMember:
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a JoinGroup."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[ListedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The answer to a SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request has been taken up and waits for the others."""

    member_id: str


def join_answer(group: ClassicGroup, member_id: str, *, may_lead: bool = True) -> JoinAnswer:
    """The present generation, with all members for its leader."""
    members: tuple[ListedMember, ...] = ()
    if may_lead and group.is_leader(member_id):
        members = tuple(
            ListedMember(m.member_id, m.instance_id, m.metadata(group.protocol_name))
            for m in group.members.values()
        )
    return JoinAnswer(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.group_protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        members=members,
    )


def joined(state: GroupState | None, member_id: str, instance_id: str | None) -> JoinAnswer | None:
    """What a member that waits in JoinGroup is answered; None while it has to wait."""
    group = state if isinstance(state, ClassicGroup) else ClassicGroup()
    member = group.members.get(member_id)
    if member is None:
        if _is_replaced(group, member_id, instance_id):
            fenced = ErrorCode.FENCED_INSTANCE_ID
            return JoinAnswer(fenced, member_id)
        return JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
    return None if member.awaits_join else join_answer(group, member_id)


def synced(
    state: GroupState | None, member_id: str, instance_id: str | None, generation: int
) -> SyncAnswer | None:
    """What a member that waits in SyncGroup is answered; None while it has to wait."""
    group = state if isinstance(state, ClassicGroup) else ClassicGroup()
    member = group.members.get(member_id)
    if member is None:
        replaced = _is_replaced(group, member_id, instance_id)
        return SyncAnswer(ErrorCode.FENCED_INSTANCE_ID if replaced else ErrorCode.UNKNOWN_MEMBER_ID)
    if group.generation != generation or group.phase is Phase.PREPARING:
        return SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    if group.phase is Phase.COMPLETING:
        return None
    return sync_answer(group, member_id)


def sync_answer(group: ClassicGroup, member_id: str) -> SyncAnswer:
    """The member's assignment in the present generation."""
    return SyncAnswer(
        protocol_type=group.group_protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )


def _is_replaced(group: ClassicGroup, member_id: str, instance_id: str | None) -> bool:
    """Whether another member has taken the place of a static one."""
    if instance_id is None:
        return False
    return group.static_ids.get(instance_id, member_id) != member_id
