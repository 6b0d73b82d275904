"""ConsumerGroupHeartbeat as a step on a group.

A heartbeat creates or updates its member, which may raise the group's epoch; makes a target for a
new epoch; and brings the member nearer to it. Whichever member's heartbeat comes first does the
work for all. Most heartbeats find nothing to do and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from towpath.groups.consumer.admission import (
    admit,
    check_size,
    group_to_join,
    group_to_leave,
    static_member,
)
from towpath.groups.consumer.fence import fence
from towpath.groups.consumer.member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, Member
from towpath.groups.consumer.partitions import NO_PARTITIONS, Partitions
from towpath.groups.consumer.reconcile import reconcile
from towpath.groups.consumer.refusal import unknown_member
from towpath.groups.consumer.request import Heartbeat
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.consumer.subscriptions import resolved, resubscribed
from towpath.groups.consumer.target import with_target
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome, Step
from towpath.topics.interface import Topics


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What a member is told."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None
    """What it may use from now on; None: as it was told last."""


def heartbeat(asked: Heartbeat) -> Step[HeartbeatAnswer]:
    """The step for a request that `check_request` has let pass. It raises Refused."""

    def step(group: GroupState | None, env: Env) -> Outcome[HeartbeatAnswer]:
        if asked.is_leaving:
            return _leave(group_to_leave(group, asked), asked, env)
        return _beat(group_to_join(group, asked), asked, env)

    return step


def idle_answer(
    group: GroupState | None, asked: Heartbeat, settings: GroupSettings, topics: Topics
) -> HeartbeatAnswer | None:
    """The answer to a heartbeat that would change nothing, as most do; None if that is not certain
    at a glance, and the step must tell."""
    if not isinstance(group, ConsumerGroup) or asked.member_epoch <= JOINING_EPOCH:
        return None
    member = group.members.get(asked.member_id)
    if member is None or (member.epoch, member.instance_id) != (
        asked.member_epoch,
        asked.instance_id,
    ):
        return None
    settled = group.epoch == group.assignment_epoch and group.has_seen(topics)
    if not settled or group.unresolved or not member.is_reconciled_to(group.assignment_epoch):
        return None
    if asked.is_full or _told(member, asked) is not member:
        return None
    return HeartbeatAnswer(member.member_id, member.epoch, settings.consumer_heartbeat_interval_ms)


def _beat(group: ConsumerGroup, asked: Heartbeat, env: Env) -> Outcome[HeartbeatAnswer]:
    check_size(group, asked, env.settings)
    member_id = asked.member_id or env.new_member_id("").removeprefix("-")
    group, member = admit(group, asked, member_id)
    group = resolved(group, env.topics)
    updated = _told(member, asked)
    if group.members.get(member_id) is not updated:
        group = group.with_member(updated)
    group = resubscribed(group, member, updated, env.topics)
    if group.epoch > group.assignment_epoch:
        group = with_target(group, env)
    reconciled = reconcile(
        updated, group.target(member_id), group.assignment_epoch, group.is_owned, asked.reported
    )
    if reconciled is not updated:
        group = group.with_member(reconciled)
    # Compared with the member as it was: an assignment that did not change is not told again.
    tells = asked.is_joining or asked.is_full or reconciled.assigned != member.assigned
    return Outcome(
        group,
        HeartbeatAnswer(
            member_id,
            reconciled.epoch,
            env.settings.consumer_heartbeat_interval_ms,
            reconciled.assigned if tells else None,
        ),
    )


def _told(member: Member, asked: Heartbeat) -> Member:
    return member.told(
        client_id=asked.client_id,
        client_host=asked.client_host,
        instance_id=asked.instance_id,
        rack_id=asked.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        server_assignor=asked.server_assignor,
        topic_names=asked.topic_names,
        topic_regex=asked.topic_regex,
    )


def _leave(group: ConsumerGroup, asked: Heartbeat, env: Env) -> Outcome[HeartbeatAnswer]:
    answer = HeartbeatAnswer(asked.member_id, asked.member_epoch)
    if asked.instance_id is None:
        if asked.member_id not in group.members:
            raise unknown_member(asked.member_id, asked.group_id)
    else:
        member = static_member(group, asked, asked.instance_id)
        if asked.member_epoch == STATIC_LEAVING_EPOCH:
            away = replace(member, epoch=STATIC_LEAVING_EPOCH, revoking=NO_PARTITIONS)
            return Outcome(group if away == member else group.with_member(away), answer)
    return Outcome(fence(group, [asked.member_id], env), answer)
