"""JoinGroup: first joins in every version, rebalances, bad requests."""

from __future__ import annotations

from tests.integration.groups_golden.classic import JOIN_LAST, Member, enter, settle, together
from tests.integration.groups_golden.registry import DEFAULTS, DELAYED, sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def join_first_every_version(s: Scene) -> None:
    """The first member of a group, in every version: with an id at once up to v3, by
    MEMBER_ID_REQUIRED from v4 on. The group is stable after the leader's SyncGroup."""
    for version in range(JOIN_LAST + 1):
        member = Member(s, f"v{version}", group=f"{s.group}-{version}")
        member.join(version=version)
        if version >= 4:
            member.join(version=version)
        member.sync({member.member_id: b"all"}, version=min(version, 5))
        member.heartbeat(version=min(version, 4))
        member.leave(version=min(version, 5))


@sequence()
def join_two_members(s: Scene) -> None:
    """An eager rebalance of two members: the second waits until the first, told by its heartbeat,
    joins again; the second's SyncGroup waits for the leader's."""
    a, b = Member(s, "a"), Member(s, "b")
    enter(a)
    a.sync({a.member_id: b"all"})
    a.heartbeat()
    b.join()
    waiting = b.park_join()
    b.peer.still_waits(waiting)
    a.heartbeat()
    a.join()
    b.joined(waiting)
    a.heartbeat()
    b.heartbeat()
    sync = b.park_sync()
    b.peer.still_waits(sync)
    a.sync({a.member_id: b"half", b.member_id: b"other half"})
    b.peer.finish(sync)
    a.heartbeat()
    b.heartbeat()


@sequence()
def join_three_members(s: Scene) -> None:
    """Three members, one after the other; then the third leaves and two rebalance."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    together(a, b, c)
    c.leave()
    a.heartbeat()
    b.heartbeat()
    waiting = b.park_join()
    a.join()
    b.joined(waiting)
    settle(a, b)


@sequence()
def join_before_the_leader_syncs(s: Scene) -> None:
    """A member that joins while the group completes a rebalance starts another one; who waits in
    SyncGroup is told to join again."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    together(a, b)
    a_waits = a.park_join({"range": b"new"})
    b.join()
    a.joined(a_waits)
    b_syncs = b.park_sync()
    c.join()
    c_waits = c.park_join()
    b.peer.finish(b_syncs)
    a.sync({})
    a.heartbeat()
    a_waits = a.park_join()
    b.join()
    a.joined(a_waits)
    c.joined(c_waits)
    settle(a, b, c)


@sequence()
def join_follower_again_with_same_metadata(s: Scene) -> None:
    """A follower of a stable group that joins again with the same protocols gets the current
    generation back; nobody else notices."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    b.join()
    a.heartbeat()
    b.sync()
    b.heartbeat()


@sequence()
def join_follower_again_with_other_metadata(s: Scene) -> None:
    """A follower that changed its protocols starts a rebalance."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    waiting = b.park_join({"range": b"new"})
    b.peer.still_waits(waiting)
    a.heartbeat()
    a.join()
    b.joined(waiting)
    settle(a, b)


@sequence()
def join_leader_again_with_same_metadata(s: Scene) -> None:
    """The leader of a stable group starts a rebalance even with the same protocols."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    waiting = a.park_join()
    a.peer.still_waits(waiting)
    b.heartbeat()
    b.join()
    a.joined(waiting)
    settle(a, b)


@sequence()
def join_again_while_rebalance_completes(s: Scene) -> None:
    """In CompletingRebalance a member that repeats its JoinGroup gets the same answer again; with
    other protocols it starts a new rebalance."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    waiting = a.park_join()
    b.join()
    a.joined(waiting)
    b.join()
    a.join()
    waiting = b.park_join({"range": b"new"})
    a.heartbeat()
    a.join()
    b.joined(waiting)
    settle(a, b)


@sequence()
def join_again_while_preparing(s: Scene) -> None:
    """A member that sends JoinGroup twice in one rebalance: the second takes the place of the
    first, which is never answered."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    first = b.park_join({"range": b"new"})
    twin = Member(s, "b")
    twin.member_id = b.member_id
    second = twin.park_join({"range": b"newer"})
    b.peer.still_waits(first)
    twin.peer.still_waits(second)
    a.join()
    twin.joined(second)
    settle(a, twin)
    b.peer.still_waits(first)


@sequence()
def join_bad_requests(s: Scene) -> None:
    """Requests that are refused before a group is looked at, or made; none leaves a group."""
    a = Member(s, "a")
    a.join(session_ms=199)
    a.join(session_ms=1_800_001)
    a.join(session_ms=0)
    a.join(session_ms=-1)
    a.join(member_id="stranger")
    a.join(member_id="stranger", version=3)
    a.join(protocol_type="")
    a.join({})
    a.join(protocol_type="", version=3)
    a.join({}, version=3)
    empty = Member(s, "a")
    empty.group = ""
    empty.join()
    empty.join(version=0)
    a.heartbeat(member_id="stranger", generation=1)
    a.join(rebalance_ms=-1)
    a.join(rebalance_ms=0)


@sequence(DEFAULTS)
def join_session_limits_by_default(s: Scene) -> None:
    """The limits of session time-outs that Kafka has by default."""
    a = Member(s, "a")
    for session_ms in (5_999, 6_000, 1_800_000, 1_800_001):
        a.join(session_ms=session_ms)


@sequence()
def join_bad_requests_to_a_stable_group(s: Scene) -> None:
    """Strangers, wrong protocol types and names at a group that has a member."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join(member_id="stranger")
    b.join(protocol_type="connect")
    b.join({"roundrobin": b"meta"})
    b.join(protocol_type="")
    b.join({})
    b.join({"roundrobin": b"meta"}, version=0)
    a.join(protocol_type="connect")
    a.heartbeat()


@sequence()
def join_pending_member_id(s: Scene) -> None:
    """A member id that was given out but did not join yet: other requests with it are refused, and
    it can be given back."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a)
    b.join()
    b.heartbeat(generation=a.generation)
    b.sync(generation=a.generation)
    a.heartbeat()
    b.leave()
    b.join(member_id=b.member_id)
    a.heartbeat()


@sequence()
def join_max_size(s: Scene) -> None:
    """The fifth member of a group of at most four is refused; an older one may join again."""
    members = [Member(s, name) for name in ("a", "b", "c", "d")]
    together(*members)
    late = Member(s, "e")
    late.join()
    late.join()
    late.join(version=3)
    members[1].join()
    members[3].leave()
    late.join()
    waiting = [late.park_join(), members[1].park_join(), members[2].park_join()]
    members[0].join()
    for member, pending in zip((late, members[1], members[2]), waiting, strict=True):
        member.joined(pending)


@sequence()
def join_max_size_while_waiting(s: Scene) -> None:
    """While a group prepares a rebalance, the limit counts those who wait in JoinGroup: a new
    member may take the place of an old one, which then is refused and no member any more. The
    others go on waiting, up to the rebalance time-out."""
    members = [Member(s, name) for name in ("a", "b", "c", "d", "e")]
    first, *new = members
    together(first)
    waiting = []
    for member in new:
        member.join()
        waiting.append(member.park_join())
    first.join()
    first.heartbeat()
    for member, pending in zip(new, waiting, strict=True):
        member.peer.still_waits(pending)


@sequence(DELAYED)
def join_initial_delay(s: Scene) -> None:
    """With group.initial.rebalance.delay.ms a new group waits for more members, and both are in
    the first generation."""
    a, b = Member(s, "a"), Member(s, "b")
    a.join()
    b.join()
    a_waits = a.park_join()
    a.peer.still_waits(a_waits)
    b_waits = b.park_join()
    a.joined(a_waits)
    b.joined(b_waits)
    settle(a, b)


@sequence(DELAYED)
def join_initial_delay_ends_with_the_rebalance_timeout(s: Scene) -> None:
    """The wait is no longer than the rebalance time-out; a later rebalance has no delay."""
    a = Member(s, "a")
    a.join(rebalance_ms=200)
    a.join(rebalance_ms=200)
    settle(a)
    a.join()
    settle(a)


@sequence()
def join_reason_is_ignored(s: Scene) -> None:
    """A reason changes nothing."""
    a = Member(s, "a")
    a.join(reason="because")
    a.join(reason="because")
    settle(a)
