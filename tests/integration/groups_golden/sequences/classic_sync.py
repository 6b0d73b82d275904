"""SyncGroup in every state and with every kind of wrong field."""

from __future__ import annotations

from tests.integration.groups_golden.classic import SYNC_LAST, Member, enter, together
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def sync_wrong_fields(s: Scene) -> None:
    """Wrong generation, member, protocol type and name; the right one afterwards still works."""
    a = Member(s, "a")
    enter(a)
    a.sync(generation=0)
    a.sync(generation=2)
    a.sync(generation=-1)
    a.sync(member_id="stranger")
    a.sync(member_id="")
    a.sync(protocol_type="connect")
    a.sync(protocol_name="roundrobin")
    a.sync(protocol_type=None)
    a.sync(protocol_name=None)
    a.sync(protocol_type=None, protocol_name=None)
    a.sync({a.member_id: b"all"})


@sequence()
def sync_without_a_group(s: Scene) -> None:
    """Unknown and empty group ids, in every version."""
    for version in range(SYNC_LAST + 1):
        a = Member(s, "a")
        a.sync(generation=1, member_id="stranger", version=version)
        a.group = ""
        a.sync(generation=1, member_id="stranger", version=version)


@sequence()
def sync_in_a_stable_group(s: Scene) -> None:
    """In a stable group everybody gets its assignment again, whatever the leader sends."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    b.sync()
    a.sync()
    a.sync({a.member_id: b"new", b.member_id: b"new"})
    b.sync()
    b.sync(generation=a.generation - 1)
    b.sync(protocol_name="roundrobin")


@sequence()
def sync_in_an_empty_group(s: Scene) -> None:
    """A group all of whose members left knows nobody."""
    a = Member(s, "a")
    together(a)
    a.leave()
    a.sync()
    a.sync(member_id="")


@sequence()
def sync_while_preparing(s: Scene) -> None:
    """While others join, SyncGroup answers REBALANCE_IN_PROGRESS."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join()
    waiting = b.park_join()
    a.sync()
    a.sync(generation=0)
    a.join()
    b.joined(waiting)


@sequence()
def sync_assignment_for_some(s: Scene) -> None:
    """Members for whom the leader has no assignment get an empty one; strangers in it are
    ignored."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    together(a, b, c)
    waiting = [a.park_join(), b.park_join()]
    c.join()
    a.joined(waiting[0])
    b.joined(waiting[1])
    b_syncs, c_syncs = b.park_sync(), c.park_sync()
    a.sync({b.member_id: b"for b", "stranger": b"for a stranger"})
    b.peer.finish(b_syncs)
    c.peer.finish(c_syncs)


@sequence()
def sync_follower_comes_late(s: Scene) -> None:
    """A follower that asks after the leader gets its assignment at once, in every version."""
    for version in range(SYNC_LAST + 1):
        a = Member(s, "a", group=f"{s.group}-{version}")
        b = Member(s, "b", group=f"{s.group}-{version}")
        enter(a)
        a.sync({}, version=version)
        b.join()
        waiting = b.park_join()
        a.join()
        b.joined(waiting)
        a.sync({a.member_id: b"a", b.member_id: b"b"}, version=version)
        b.sync(version=version)


@sequence()
def sync_follower_sends_assignments(s: Scene) -> None:
    """What a follower sends as assignments is ignored."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    waiting = a.park_join()
    b.join()
    a.joined(waiting)
    b_syncs = b.park_sync({a.member_id: b"false", b.member_id: b"false"})
    b.peer.still_waits(b_syncs)
    a.sync({a.member_id: b"true", b.member_id: b"true"})
    b.peer.finish(b_syncs)
