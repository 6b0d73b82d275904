"""What time does to classic groups."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, enter, settle, together
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

SHORT_MS = 400


@sequence()
def expiry_of_the_only_member(s: Scene) -> None:
    """A member that says nothing for its session time-out is gone, and the group empty."""
    a = Member(s, "a")
    together(a, session_ms=SHORT_MS)
    s.until_members(0)
    a.heartbeat()
    a.join()
    enter(a.renewed())


@sequence()
def expiry_of_a_follower(s: Scene) -> None:
    """The others rebalance without it."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join(session_ms=SHORT_MS)
    waiting = b.park_join(session_ms=SHORT_MS)
    a.join()
    b.joined(waiting)
    settle(a, b)
    s.until_state("PreparingRebalance")
    a.heartbeat()
    a.join()
    settle(a)
    b.heartbeat()
    b.join()


@sequence()
def expiry_of_the_leader(s: Scene) -> None:
    """The other member leads."""
    a, b = Member(s, "a"), Member(s, "b")
    enter(a, session_ms=SHORT_MS)
    settle(a)
    b.join()
    waiting = b.park_join()
    a.join(session_ms=SHORT_MS)
    b.joined(waiting)
    settle(a, b)
    s.until_state("PreparingRebalance")
    b.heartbeat()
    b.join()
    settle(b)
    a.heartbeat()


@sequence()
def expiry_of_one_that_does_not_rejoin(s: Scene) -> None:
    """Who does not join within the rebalance time-out is removed, though it heartbeats."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b, rebalance_ms=800)
    waiting = a.park_join({"range": b"new"}, rebalance_ms=800)
    b.heartbeat()
    a.joined(waiting)
    settle(a)
    b.heartbeat()
    b.join()


@sequence()
def expiry_of_a_leader_that_does_not_rejoin(s: Scene) -> None:
    """The leader is replaced when it does not join."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b, rebalance_ms=800)
    waiting = b.park_join({"range": b"new"}, rebalance_ms=800)
    a.heartbeat()
    b.joined(waiting)
    settle(b)
    a.heartbeat()


@sequence()
def expiry_of_all_that_do_not_rejoin(s: Scene) -> None:
    """A new member joins and nobody else does: it is alone afterwards."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    together(a, b, rebalance_ms=800)
    c.join(rebalance_ms=800)
    waiting = c.park_join(rebalance_ms=800)
    c.joined(waiting)
    settle(c)
    a.heartbeat()
    b.heartbeat()


@sequence()
def expiry_of_one_that_does_not_sync(s: Scene) -> None:
    """A follower that does not send SyncGroup within the rebalance time-out is removed."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b, rebalance_ms=800)
    waiting = a.park_join(rebalance_ms=800)
    b.join(rebalance_ms=800)
    a.joined(waiting)
    a.sync({a.member_id: b"a", b.member_id: b"b"})
    s.until_state("PreparingRebalance")
    a.heartbeat()
    b.heartbeat()
    a.join()
    settle(a)


@sequence()
def expiry_of_a_leader_that_does_not_sync(s: Scene) -> None:
    """Followers that wait in SyncGroup are told to join again when the leader is removed."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b, rebalance_ms=800)
    waiting = a.park_join(rebalance_ms=800)
    b.join(rebalance_ms=800)
    a.joined(waiting)
    syncing = b.park_sync()
    b.peer.finish(syncing)
    a.heartbeat()
    b.join(rebalance_ms=800)
    settle(b)


@sequence()
def expiry_of_a_pending_member_id(s: Scene) -> None:
    """A member id that was given out and not used within the session time-out is forgotten."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join(session_ms=SHORT_MS)
    s.sleep_ms(3 * SHORT_MS)
    b.join()
    a.heartbeat()


@sequence()
def expiry_of_a_pending_member_id_in_a_rebalance(s: Scene) -> None:
    """A rebalance waits for ids that were given out, until they expire."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join(session_ms=SHORT_MS)
    waiting = a.park_join()
    a.peer.still_waits(waiting)
    a.joined(waiting)
    settle(a)


@sequence()
def expiry_of_a_static_member(s: Scene) -> None:
    """A static member that does not return within its session time-out is removed."""
    a, b = Member(s, "a"), Member(s, "b", instance="two")
    together(a)
    waiting = b.park_join(session_ms=SHORT_MS)
    a.join()
    b.joined(waiting)
    settle(a, b)
    s.until_state("PreparingRebalance")
    a.heartbeat()
    a.join()
    settle(a)


@sequence()
def expiry_does_not_hit_who_waits_to_join(s: Scene) -> None:
    """A member that waits in JoinGroup longer than its session time-out stays a member."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join(session_ms=SHORT_MS)
    waiting = b.park_join(session_ms=SHORT_MS)
    s.sleep_ms(3 * SHORT_MS)
    b.peer.still_waits(waiting)
    a.join()
    b.joined(waiting)
    settle(a, b)
