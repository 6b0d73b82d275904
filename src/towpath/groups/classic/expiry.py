"""What happens in a classic group by time alone, as steps of the lease holder's timers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from towpath.groups.classic.rebalance import (
    end_joining,
    prepare,
    rebalance_or_go_on,
    without,
)
from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome, Step, Timer

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait for its first generation; it may have gone and come as another."""


def timers(group: ClassicGroup) -> list[Timer]:
    """Everything that becomes due in this state."""
    found: list[Timer] = []
    for member in group.members.values():
        member_id = member.member_id
        step = _expire_member(member_id)
        found.append(
            Timer(f"session/{member_id}", member.session_timeout_ms, step, member_id=member_id)
        )
        if member.is_new:
            found.append(Timer(f"new/{member_id}", NEW_MEMBER_JOIN_TIMEOUT_MS, step))
    for member_id, timeout_ms in group.pending.items():
        found.append(Timer(f"pending/{member_id}", timeout_ms, _expire_member(member_id)))
    wait = f"{group.generation}/{group.wait_number}"
    if group.phase is Phase.PREPARING:
        if group.initial is not None:
            name = f"initial/{group.generation}/{group.initial.number}"
            found.append(Timer(name, group.initial.delay_ms, _end_initial_round(group)))
        else:
            found.append(Timer(f"join/{wait}", group.wait_ms, _end_joining(group)))
    elif any(member.owes_sync for member in group.members.values()):
        found.append(Timer(f"sync/{wait}", group.wait_ms, _expire_syncs(group.generation)))
    return found


def _classic(
    change: Callable[[ClassicGroup, Env], ClassicGroup],
) -> Step[None]:
    """A step that changes a classic group and leaves any other alone."""

    def step(state: GroupState | None, env: Env) -> Outcome[None]:
        if not isinstance(state, ClassicGroup):
            return Outcome(state, None)
        return Outcome(change(state, env), None)

    return step


def _expire_member(member_id: str) -> Step[None]:
    """The member, or the id that nobody has come back with, is gone."""

    def expire(group: ClassicGroup, env: Env) -> ClassicGroup:
        was_member = member_id in group.members
        left = without(group, [member_id])
        if left is group:
            return group
        if group.phase is Phase.PREPARING:
            return end_joining(left, env) if left.all_have_joined else left
        return rebalance_or_go_on(left, env) if was_member else left

    return _classic(expire)


def _end_initial_round(seen: ClassicGroup) -> Step[None]:
    """The delay of an empty group's first rebalance is over; it is extended while members come."""

    def end(group: ClassicGroup, env: Env) -> ClassicGroup:
        initial = group.initial
        if initial is None or not _is_same_wait(group, seen):
            return group
        if seen.initial is None or initial.number != seen.initial.number:
            return group
        if not initial.has_new_member or initial.remaining_ms == 0:
            return end_joining(group, env)
        extended = replace(
            initial,
            delay_ms=min(env.settings.initial_rebalance_delay_ms, initial.remaining_ms),
            remaining_ms=max(initial.remaining_ms - initial.delay_ms, 0),
            number=initial.number + 1,
            has_new_member=False,
        )
        return replace(group, initial=extended)

    return _classic(end)


def _end_joining(seen: ClassicGroup) -> Step[None]:
    """Who has not joined by now is left behind."""

    def end(group: ClassicGroup, env: Env) -> ClassicGroup:
        if group.phase is not Phase.PREPARING or not _is_same_wait(group, seen):
            return group
        return end_joining(group, env)

    return _classic(end)


def _is_same_wait(group: ClassicGroup, seen: ClassicGroup) -> bool:
    return (group.generation, group.wait_number) == (seen.generation, seen.wait_number)


def _expire_syncs(generation: int) -> Step[None]:
    """Members that have joined but never asked for their assignment are removed."""

    def expire(group: ClassicGroup, env: Env) -> ClassicGroup:
        if group.generation != generation or group.phase not in (Phase.COMPLETING, Phase.STABLE):
            return group
        late = [m.member_id for m in group.members.values() if m.owes_sync]
        return prepare(without(group, late), env) if late else group

    return _classic(expire)
