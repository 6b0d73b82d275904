"""How a classic group moves from one generation to the next.

Functions from group to group; what starts them is in `join.py`, `sync.py`, `leave.py` and
`expiry.py`.
"""

from __future__ import annotations

from dataclasses import replace

from towpath.groups.classic.member import NO_ASSIGNMENT
from towpath.groups.classic.state import ClassicGroup, InitialDelay, Phase
from towpath.groups.classic.votes import elect
from towpath.groups.step import Env


def rebalance_or_go_on(group: ClassicGroup, env: Env) -> ClassicGroup:
    """Start a rebalance, or end the joining if one is under way and nobody is missing."""
    if group.phase is Phase.PREPARING:
        return end_joining_if_complete(group, env)
    return prepare(group, env)


def prepare(group: ClassicGroup, env: Env) -> ClassicGroup:
    """Start a rebalance: everybody has to join again.

    What members hold is kept until the new generation's leader has assigned anew; only an
    assignment that was still to come is given up.
    """
    was_empty = group.phase is Phase.EMPTY
    completing = group.phase is Phase.COMPLETING
    members = {
        member_id: replace(
            member,
            owes_sync=False,
            assignment=NO_ASSIGNMENT if completing else member.assignment,
        )
        for member_id, member in group.members.items()
    }
    group = replace(
        group,
        phase=Phase.PREPARING,
        members=members,
        initial=_initial_delay(group, env) if was_empty else None,
        wait_ms=group.rebalance_timeout_ms,
        wait_number=0,
        since_ms=env.wall_ms,
    )
    if was_empty:
        # Kafka schedules a delay of nothing, too; the outcome is the same.
        return group if env.settings.initial_rebalance_delay_ms else end_joining(group, env)
    if not group.members:
        # Nobody is left whose time could be waited for, only ids that were given out.
        return end_joining(group, env)
    return end_joining_if_complete(group, env)


def _initial_delay(group: ClassicGroup, env: Env) -> InitialDelay:
    delay_ms = env.settings.initial_rebalance_delay_ms
    return InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))


def end_joining_if_complete(group: ClassicGroup, env: Env) -> ClassicGroup:
    """End the joining if nobody is waited for; the first rebalance always takes its time."""
    if group.phase is not Phase.PREPARING or group.initial is not None:
        return group
    return end_joining(group, env) if group.all_have_joined else group


def end_joining(group: ClassicGroup, env: Env) -> ClassicGroup:
    """Go on without the members that have not joined; static ones keep their place."""
    group = without(
        group, [m.member_id for m in group.members.values() if not (m.awaits_join or m.is_static)]
    )
    if not group.members:
        return _become_empty(group, env)
    leader_id = _joined_leader(group)
    if leader_id is None:
        # Only static members that are not there: session time-outs will remove them.
        return replace(
            group,
            initial=None,
            wait_ms=group.rebalance_timeout_ms,
            wait_number=group.wait_number + 1,
        )
    members = {
        member_id: replace(member, awaits_join=False, is_new=False, owes_sync=True)
        for member_id, member in group.members.items()
    }
    return replace(
        group,
        phase=Phase.COMPLETING,
        generation=group.generation + 1,
        protocol_name=elect(group.members.values()),
        leader_id=leader_id,
        members=members,
        initial=None,
        wait_ms=group.rebalance_timeout_ms,
        wait_number=0,
        since_ms=env.wall_ms,
    )


def _become_empty(group: ClassicGroup, env: Env) -> ClassicGroup:
    return replace(
        group,
        phase=Phase.EMPTY,
        generation=group.generation + 1,
        protocol_name=None,
        leader_id=None,
        initial=None,
        wait_ms=0,
        wait_number=0,
        since_ms=env.wall_ms,
    )


def _joined_leader(group: ClassicGroup) -> str | None:
    """The leader if it has joined, else the first member that has."""
    leader = group.members.get(group.leader_id or "")
    if leader is not None and leader.awaits_join:
        return leader.member_id
    return next((m.member_id for m in group.members.values() if m.awaits_join), None)


def without(group: ClassicGroup, member_ids: list[str]) -> ClassicGroup:
    """The group without these members or pending ids; the first of the others leads if need be."""
    gone = frozenset(member_ids)
    if not any(m in group.members or m in group.pending for m in member_ids):
        return group
    members = {m: member for m, member in group.members.items() if m not in gone}
    pending = {m: timeout_ms for m, timeout_ms in group.pending.items() if m not in gone}
    leader_id = group.leader_id
    if leader_id in gone:
        leader_id = next(iter(members), None)
    return replace(group, members=members, pending=pending, leader_id=leader_id)
