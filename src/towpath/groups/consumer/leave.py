"""LeaveGroup on a group of the consumer protocol: how administrators remove members."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.groups.consumer.fence import fence
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.step import Env, Outcome
from towpath.kafka.codec.error_codes import ErrorCode

Identity = tuple[str, str | None]
"""Member id and instance id; a static member may be named by its instance id alone."""


def remove_members(
    group: ConsumerGroup, identities: Sequence[Identity], env: Env
) -> Outcome[tuple[ErrorCode, ...]]:
    """Remove the members at once, with one new epoch; answers each identity, in the order given."""
    found = [_find(group, *identity) for identity in identities]
    leaving = {one for one in found if isinstance(one, str)}
    errors = tuple(ErrorCode.NONE if isinstance(one, str) else one for one in found)
    return Outcome(fence(group, leaving, env), errors)


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> str | ErrorCode:
    """The id of the member that is meant, or why there is none."""
    if instance_id is None:
        return member_id if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
    member = group.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_it = member_id in ("", member.member_id)
    return member.member_id if is_it else ErrorCode.FENCED_INSTANCE_ID
