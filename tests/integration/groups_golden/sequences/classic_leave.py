"""LeaveGroup: alone, batched, unknown."""

from __future__ import annotations

from tests.integration.groups_golden.classic import LEAVE_LAST, Member, settle, together
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

from towpath.kafka.codec.messages.leave_group import MemberIdentity


@sequence()
def leave_without_a_group(s: Scene) -> None:
    """Unknown and empty group ids, in every version."""
    for version in range(LEAVE_LAST + 1):
        a = Member(s, "a")
        a.leave(member_id="stranger", version=version)
        a.group = ""
        a.leave(member_id="stranger", version=version)


@sequence()
def leave_every_version(s: Scene) -> None:
    """The only member leaves, twice, in every version."""
    for version in range(LEAVE_LAST + 1):
        a = Member(s, "a", group=f"{s.group}-{version}")
        together(a)
        a.leave(member_id="stranger", version=version)
        a.leave(version=version)
        a.leave(version=version)
        a.heartbeat()


@sequence()
def leave_batched(s: Scene) -> None:
    """Several members in one request, with strangers among them; each has its own error."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    together(a, b, c)
    a.leave_many(
        MemberIdentity(member_id=b.member_id),
        MemberIdentity(member_id="stranger"),
        MemberIdentity(member_id=c.member_id, group_instance_id="instance"),
        MemberIdentity(member_id="", group_instance_id="instance"),
        MemberIdentity(member_id=b.member_id),
        MemberIdentity(member_id=c.member_id),
    )
    a.heartbeat()
    a.join()
    settle(a)
    a.leave_many()
    a.heartbeat()


@sequence()
def leave_of_the_leader(s: Scene) -> None:
    """The other member leads the next generation."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    a.leave()
    b.heartbeat()
    b.join()
    settle(b)
    b.heartbeat()


@sequence()
def leave_completes_a_rebalance(s: Scene) -> None:
    """Who is waited for leaves: those who wait go on."""
    a, b, c = Member(s, "a"), Member(s, "b"), Member(s, "c")
    together(a, b, c)
    a_waits = a.park_join({"range": b"new"})
    c_waits = c.park_join()
    b.leave()
    a.joined(a_waits)
    c.joined(c_waits)
    settle(a, c)


@sequence()
def leave_of_one_that_waits_to_join(s: Scene) -> None:
    """A member that waits in JoinGroup and is made to leave: the wait is answered with
    UNKNOWN_MEMBER_ID."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    b_waits = b.park_join({"range": b"new"})
    a.leave_many(MemberIdentity(member_id=b.member_id))
    b.peer.finish(b_waits)
    a.heartbeat()
    a.join()


@sequence()
def leave_of_one_that_waits_to_sync(s: Scene) -> None:
    """A member that waits in SyncGroup and is made to leave gets no answer."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    a_waits = a.park_join()
    b.join()
    a.joined(a_waits)
    b_syncs = b.park_sync()
    a.leave_many(MemberIdentity(member_id=b.member_id))
    b.peer.still_waits(b_syncs)
    a.sync({})
    a.join()
    settle(a)
    b.peer.still_waits(b_syncs)


@sequence()
def leave_while_others_wait_to_sync(s: Scene) -> None:
    """A leader that leaves before its SyncGroup: followers that wait are told to join again."""
    a, b = Member(s, "a"), Member(s, "b")
    together(a, b)
    a_waits = a.park_join()
    b.join()
    a.joined(a_waits)
    b_syncs = b.park_sync()
    a.leave()
    b.peer.finish(b_syncs)
    b.join()
    settle(b)
