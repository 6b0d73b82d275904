"""Heartbeat in every state."""

from __future__ import annotations

from tests.integration.groups_golden.classic import HEARTBEAT_LAST, Member, enter, together
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def heartbeat_without_a_group(s: Scene) -> None:
    """Unknown and empty group ids, in every version."""
    for version in range(HEARTBEAT_LAST + 1):
        a = Member(s, "a")
        a.heartbeat(generation=1, member_id="stranger", version=version)
        a.group = ""
        a.heartbeat(generation=1, member_id="stranger", version=version)


@sequence()
def heartbeat_in_every_state(s: Scene) -> None:
    """Completing, stable, preparing and empty, each with right and wrong generation and member."""
    a, b = Member(s, "a"), Member(s, "b")

    def all_kinds(member: Member) -> None:
        member.heartbeat()
        member.heartbeat(generation=member.generation - 1)
        member.heartbeat(generation=member.generation + 1)
        member.heartbeat(generation=-1)
        member.heartbeat(member_id="stranger")
        member.heartbeat(member_id="")

    enter(a)
    all_kinds(a)
    a.sync({a.member_id: b"all"})
    all_kinds(a)
    b.join()
    waiting = b.park_join()
    all_kinds(a)
    a.join()
    b.joined(waiting)
    all_kinds(b)
    a.leave()
    all_kinds(a)
    b.heartbeat()
    b.leave()
    all_kinds(b)


@sequence()
def heartbeat_every_version(s: Scene) -> None:
    """A stable member in every version."""
    a = Member(s, "a")
    together(a)
    for version in range(HEARTBEAT_LAST + 1):
        a.heartbeat(version=version)
        a.heartbeat(generation=7, version=version)
