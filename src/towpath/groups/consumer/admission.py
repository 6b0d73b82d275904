"""Who may send a heartbeat: finds, admits or replaces the member, or refuses it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from towpath.groups.consumer.member import STATIC_LEAVING_EPOCH, Member
from towpath.groups.consumer.partitions import includes
from towpath.groups.consumer.refusal import Refused, not_found, unknown_member
from towpath.groups.consumer.request import Heartbeat
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode


class Admitted(NamedTuple):
    """A member that may go on; a new one is not yet part of the group."""

    group: ConsumerGroup
    member: Member


def group_to_join(group: GroupState | None, asked: Heartbeat) -> ConsumerGroup:
    """The group that a heartbeat which does not leave is about. A group of the other protocol can
    be joined, and becomes one of this, once it has no members."""
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        if asked.is_joining:
            return ConsumerGroup()
        raise not_found(f"Consumer group {asked.group_id} not found.")
    if not asked.is_joining:
        raise not_found(f"Group {asked.group_id} is not a consumer group.")
    if not group.is_empty:
        raise not_found(
            f"Cannot upgrade classic group {asked.group_id} to consumer group because "
            "online upgrade is disabled."
        )
    # The epoch goes on, because committed offsets are told apart by it.
    return ConsumerGroup(epoch=group.epoch, assignment_epoch=group.epoch)


def group_to_leave(group: GroupState | None, asked: Heartbeat) -> ConsumerGroup:
    """The group that a member wants to leave."""
    if group is None:
        raise not_found(f"Group {asked.group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise not_found(f"Group {asked.group_id} is not a consumer group.")
    return group


def check_size(group: ConsumerGroup, asked: Heartbeat, settings: GroupSettings) -> None:
    """Refuse one more member than there may be."""
    limit = settings.consumer_max_size
    if len(group.members) >= limit and asked.member_id not in group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def admit(group: ConsumerGroup, asked: Heartbeat, member_id: str) -> Admitted:
    """The member that sends a heartbeat, not counting what it newly tells."""
    if asked.instance_id is None:
        return _admit_dynamic(group, asked, member_id)
    if asked.is_joining:
        return _admit_static(group, asked.instance_id, member_id)
    member = static_member(group, asked, asked.instance_id)
    _check_epoch(member, asked)
    return Admitted(group, member)


def static_member(group: ConsumerGroup, asked: Heartbeat, instance_id: str) -> Member:
    """The static member that asks; refuses one whose place another has taken."""
    member = group.static_member(instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != asked.member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {asked.member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def _admit_dynamic(group: ConsumerGroup, asked: Heartbeat, member_id: str) -> Admitted:
    member = group.members.get(member_id)
    if member is None:
        if not asked.is_joining:
            raise unknown_member(member_id, asked.group_id)
        member = Member(member_id, group.next_place)
    _check_epoch(member, asked)
    return Admitted(group, member)


def _admit_static(group: ConsumerGroup, instance_id: str, member_id: str) -> Admitted:
    """A static member joins, or takes the place of the one that left for a while."""
    old = group.static_member(instance_id)
    if old is None:
        member = group.members.get(member_id)
        return Admitted(group, member or Member(member_id, group.next_place))
    if old.epoch != STATIC_LEAVING_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {old.member_id} member.",
        )
    new = replace(old, member_id=member_id, place=group.next_place, epoch=0, previous_epoch=0)
    return Admitted(group.with_replaced(old, new), new)


def _check_epoch(member: Member, asked: Heartbeat) -> None:
    """Refuse any epoch but the member's own, or the one before if the answer that told it the new
    one may have been lost."""
    if asked.member_epoch > member.epoch:
        raise _fenced("greater", asked.member_epoch, member.epoch)
    if asked.member_epoch < member.epoch:
        lost_answer = asked.member_epoch == member.previous_epoch
        if (
            not lost_answer
            or asked.reported is None
            or not includes(member.assigned, asked.reported)
        ):
            raise _fenced("smaller", asked.member_epoch, member.epoch)


def _fenced(which: str, received: int, known: int) -> Refused:
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {which} member epoch ({received}) than the one known by "
        f"the group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )
