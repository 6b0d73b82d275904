"""What becomes due by time in a group of the consumer protocol.

Two things, both of which end in a member's removal: it was silent for the session time-out, or it
did not give up partitions within its rebalance time-out. A static member that left for a while is
silent, too, so its place is free when the session is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from towpath.groups.consumer.fence import fence
from towpath.groups.consumer.member import STATIC_LEAVING_EPOCH, Member, MemberState
from towpath.groups.settings import CONSUMER, GroupSettings
from towpath.groups.step import Env, Outcome, Timer

if TYPE_CHECKING:
    from towpath.groups.consumer.state import ConsumerGroup
    from towpath.groups.state import GroupState

KEPT_TIMERS = 16_384
"""Session timers kept to be handed out again: every state of a group has the same."""


def timers_of(group: ConsumerGroup, settings: GroupSettings) -> list[Timer]:
    """The session of every member, and the deadline of those that must give up partitions."""
    session_ms = settings.consumer_session_timeout_ms
    timers = [_session(member_id, session_ms) for member_id in group.members]
    timers += map(_rebalance, rebalancing(group))
    return timers


def rebalancing(group: ConsumerGroup) -> list[Member]:
    """The members whose rebalance time-out runs."""
    return [
        member
        for member in group.members.values()
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != STATIC_LEAVING_EPOCH
    ]


def expire(group: ConsumerGroup, member_ids: list[str], env: Env) -> ConsumerGroup:
    """The group after the sessions of these members have ended."""
    return fence(group, member_ids, env)


@dataclass(frozen=True, slots=True)
class _Expire:
    """Removes a member that was silent for too long."""

    member_id: str

    def __call__(self, group: GroupState | None, env: Env) -> Outcome[None]:
        if group is None or group.KIND != CONSUMER:
            return Outcome(group, None)
        return Outcome(expire(cast("ConsumerGroup", group), [self.member_id], env), None)


@dataclass(frozen=True, slots=True)
class _ExpireRebalance:
    """Removes a member that is still at the epoch at which it should have given up partitions."""

    member_id: str
    epoch: int

    def __call__(self, group: GroupState | None, env: Env) -> Outcome[None]:
        if group is None or group.KIND != CONSUMER:
            return Outcome(group, None)
        consumers = cast("ConsumerGroup", group)
        member = consumers.members.get(self.member_id)
        if member is None or member not in rebalancing(consumers) or member.epoch != self.epoch:
            return Outcome(group, None)
        return Outcome(fence(consumers, [self.member_id], env), None)


@lru_cache(maxsize=KEPT_TIMERS)
def _session(member_id: str, after_ms: int) -> Timer:
    return Timer(f"session {member_id}", after_ms, _Expire(member_id), member_id)


def _rebalance(member: Member) -> Timer:
    # The epoch in the name: at the next one the member has a new time-out.
    return Timer(
        f"rebalance {member.member_id} {member.epoch}",
        member.rebalance_timeout_ms,
        _ExpireRebalance(member.member_id, member.epoch),
    )
