"""How a member comes from what it has to what it shall have, one heartbeat at a time.

A member first gives up what is not in its target; only when it has said so does it go to the
target's epoch and get new partitions, and of those only the ones that nobody else has any more. No
partition is ever used by two members, and members with nothing to give up never stop.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from towpath.groups.consumer.member import Member, MemberState
from towpath.groups.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    common,
    meet,
    partitions_of,
    together,
    without,
)

IsOwned = Callable[[uuid.UUID, int], bool]
"""Whether some member uses the partition or is yet to give it up."""


def reconcile(
    member: Member,
    target: Partitions,
    target_epoch: int,
    is_owned: IsOwned,
    reported: Partitions | None,
) -> Member:
    """The member after a heartbeat in which it reported to have the partitions `reported`, None if
    it did not say. The same object if it cannot go on yet, or need not."""
    if member.is_reconciled_to(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_has(reported, member.revoking):
            return member
        epoch = member.epoch + 1
    else:
        epoch = member.epoch
    new = _next(member, epoch, target, target_epoch, is_owned, reported)
    return member if new == member else new


def _next(
    member: Member,
    epoch: int,
    target: Partitions,
    target_epoch: int,
    is_owned: IsOwned,
    reported: Partitions | None,
) -> Member:
    kept = common(member.assigned, target)
    revoking = without(member.assigned, kept)
    if revoking and _still_has(reported, revoking):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    wanted = without(target, kept)
    free = partitions_of(
        (topic_id, [number for number in numbers if not is_owned(topic_id, number)])
        for topic_id, numbers in wanted.items()
    )
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
    return _moved(member, target_epoch, state, together(kept, free), NO_PARTITIONS)


def _moved(
    member: Member, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
) -> Member:
    return replace(
        member,
        epoch=epoch,
        # Also when the epoch stays: what the member knew before counts for one answer only.
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def _still_has(reported: Partitions | None, revoking: Partitions) -> bool:
    """Who does not say what it has is taken to have it all."""
    return reported is None or meet(reported, revoking)
