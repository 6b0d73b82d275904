"""OffsetFetch: every version, several groups, all partitions, members and epochs."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, together
from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.offsets import (
    FETCH_FIRST,
    FETCH_LAST,
    commit,
    fetch,
    fetch_groups,
)
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

VERSIONS = range(FETCH_FIRST, FETCH_LAST + 1)
OFFSETS = {("alpha", 0): 10, ("alpha", 2): 12, ("beta", 1): 7}


@sequence()
def fetch_every_version(s: Scene) -> None:
    """Committed and uncommitted partitions, unknown partitions and topics, all, none, and an
    unknown group."""
    peer = s.peer("simple")
    commit(peer, s.group, OFFSETS, metadata="note", leader_epoch=0)
    for version in VERSIONS:
        asked = [("alpha", 0), ("alpha", 1), ("alpha", 17), ("nosuchtopic", 0), ("beta", 1)]
        fetch(peer, s.group, asked, version=version)
        fetch(peer, s.group, [("alpha", 0), ("alpha", 0)], version=version)
        fetch(peer, s.group, [], version=version)
        fetch(peer, "nobody", [("alpha", 0)], version=version)
        fetch(peer, "", [("alpha", 0)], version=version)
        if version >= 2:
            fetch(peer, s.group, version=version)
            fetch(peer, "nobody", version=version)


@sequence()
def fetch_several_groups(s: Scene) -> None:
    """Several groups in one request, one unknown, one for everything, one twice, none at all."""
    peer = s.peer("simple")
    one, two = f"{s.group}-1", f"{s.group}-2"
    commit(peer, one, OFFSETS)
    commit(peer, two, {("beta", 0): 1})
    for version in (8, 9):
        fetch_groups(peer, {two: None, one: [("alpha", 0)], "nobody": None}, version=version)
        fetch_groups(peer, {}, version=version)
        fetch_groups(peer, {one: [], two: [("beta", 0), ("beta", 1)]}, version=version)


@sequence()
def fetch_stable(s: Scene) -> None:
    """Asking for stable offsets changes nothing without transactions."""
    peer = s.peer("simple")
    commit(peer, s.group, OFFSETS)
    for version in (7, 8, 9):
        fetch(peer, s.group, stable=True, version=version)
        fetch(peer, s.group, [("alpha", 0), ("alpha", 1)], stable=True, version=version)


@sequence()
def fetch_by_consumers(s: Scene) -> None:
    """From v9 on a member of the consumer protocol is checked; who names no member is not."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(topics=["alpha", "beta"])
    a.acknowledge()
    commit(a.peer, s.group, {("alpha", 0): 1}, member_id="a", epoch=a.epoch)
    for member_id, epoch in (
        ("a", a.epoch),
        ("a", a.epoch - 1),
        ("a", a.epoch + 1),
        ("a", -1),
        ("a", 0),
        ("stranger", a.epoch),
        ("stranger", -1),
        ("", a.epoch),
        ("", -1),
        (None, a.epoch),
        (None, -1),
    ):
        fetch(a.peer, s.group, [("alpha", 0)], member_id=member_id, epoch=epoch)
        fetch(a.peer, s.group, member_id=member_id, epoch=epoch)
    fetch(a.peer, "nobody", member_id="a", epoch=1)


@sequence()
def fetch_by_classic_members(s: Scene) -> None:
    """Members of classic groups are not checked."""
    a = Member(s, "a")
    together(a)
    commit(a.peer, s.group, {("alpha", 0): 1}, member_id=a.member_id, epoch=a.generation)
    fetch(a.peer, s.group, member_id=a.member_id, epoch=a.generation)
    fetch(a.peer, s.group, member_id=a.member_id, epoch=7)
    fetch(a.peer, s.group, member_id="stranger", epoch=1)
    a.leave()
    fetch(a.peer, s.group)
