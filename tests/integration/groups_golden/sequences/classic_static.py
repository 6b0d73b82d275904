"""Static members: instance ids that outlive connections."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, settle, subscription, together
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

from towpath.kafka.codec.messages.leave_group import MemberIdentity


def static_pair(s: Scene) -> tuple[Member, Member]:
    """A static leader and a static follower in a stable group."""
    a, b = Member(s, "a", instance="one"), Member(s, "b", instance="two")
    a.join()
    settle(a)
    waiting = b.park_join()
    a.join()
    b.joined(waiting)
    settle(a, b)
    return a, b


@sequence()
def static_first_join(s: Scene) -> None:
    """A static member gets its id at once, from the instance id; every version that has one."""
    for version in range(5, 10):
        a = Member(s, "a", instance="one", group=f"{s.group}-{version}")
        a.join(version=version)
        a.sync({a.member_id: b"all"}, version=min(version, 5))
        a.heartbeat()


@sequence()
def static_follower_returns(s: Scene) -> None:
    """A follower that comes back with the same protocols gets a new member id, the same generation
    and its old assignment; nobody rebalances. Its old id is fenced."""
    a, b = static_pair(s)
    again = Member(s, "b2", instance="two")
    again.join()
    again.sync()
    a.heartbeat()
    again.heartbeat()
    b.heartbeat()
    b.sync()
    b.join()
    b.leave()
    again.heartbeat()


@sequence()
def static_follower_returns_with_other_metadata(s: Scene) -> None:
    """A follower that comes back with other metadata of the same protocol starts no rebalance; the
    leader sees the new metadata in the next one."""
    a, b = static_pair(s)
    again = Member(s, "b2", instance="two")
    again.join({"range": b"new"})
    again.sync()
    a.heartbeat()
    b.heartbeat()
    waiting = a.park_join()
    again.join({"range": b"new"})
    a.joined(waiting)
    settle(a, again)


@sequence()
def static_follower_returns_and_changes_the_protocol(s: Scene) -> None:
    """A follower that comes back and whose vote makes another protocol win starts a rebalance."""
    a, b = Member(s, "a", instance="one"), Member(s, "b", instance="two")
    both = {"range": b"r", "sticky": b"s"}
    a.join(both)
    settle(a)
    waiting = b.park_join(both)
    a.join(both)
    b.joined(waiting)
    settle(a, b)
    again = Member(s, "b2", instance="two")
    waiting = again.park_join({"sticky": b"s"})
    again.peer.still_waits(waiting)
    a.heartbeat()
    b.heartbeat()
    a.join(both)
    again.joined(waiting)
    settle(a, again, protocol_name="sticky")


@sequence()
def static_member_returns_with_an_unknown_protocol(s: Scene) -> None:
    """One that comes back with protocols nobody else has is refused, and the old one stays."""
    a, b = static_pair(s)
    again = Member(s, "b2", instance="two")
    again.join({"sticky": b"s"})
    b.heartbeat()
    a.heartbeat()


@sequence()
def static_leader_returns(s: Scene) -> None:
    """A leader that comes back: from v9 on it is told all members and to skip the assignment; its
    SyncGroup changes nothing."""
    a, b = static_pair(s)
    again = Member(s, "a2", instance="one")
    again.join()
    again.sync()
    again.heartbeat()
    b.heartbeat()
    a.heartbeat()


@sequence()
def static_leader_returns_with_an_old_version(s: Scene) -> None:
    """Before v9 nobody can skip the assignment, so the returning leader is told the old leader's
    id and no members."""
    a, b = static_pair(s)
    again = Member(s, "a2", instance="one")
    again.join(version=8)
    again.sync(version=4)
    again.heartbeat()
    b.heartbeat()
    a.heartbeat()


@sequence()
def static_leader_returns_with_other_metadata(s: Scene) -> None:
    """A leader that comes back with other metadata of the same protocol starts no rebalance."""
    _, b = static_pair(s)
    again = Member(s, "a2", instance="one")
    again.join({"range": b"new"})
    b.heartbeat()
    again.sync()
    again.heartbeat()


@sequence()
def static_known_member_joins_again(s: Scene) -> None:
    """With its current id a static member joins again like any other."""
    a, b = static_pair(s)
    b.join()
    waiting = a.park_join()
    b.join()
    a.joined(waiting)
    settle(a, b)


@sequence()
def static_fencing(s: Scene) -> None:
    """Wrong pairs of instance id and member id in every request."""
    a, b = static_pair(s)
    b.member_id, right = a.member_id, b.member_id
    b.heartbeat()
    b.sync()
    b.join()
    b.leave()
    b.member_id = "stranger"
    b.heartbeat()
    b.sync()
    b.join()
    b.leave()
    b.member_id, b.instance = right, "three"
    b.heartbeat()
    b.sync()
    b.join()
    b.leave()
    b.instance = None
    b.heartbeat()
    b.instance = "two"
    b.heartbeat()
    a.heartbeat()


@sequence()
def static_duplicate_while_joining(s: Scene) -> None:
    """A second client with the instance id of one that waits in JoinGroup takes its place, and the
    first is fenced."""
    a, b = static_pair(s)
    first = b.park_join({"range": b"new"})
    twin = Member(s, "b2", instance="two")
    second = twin.park_join({"range": b"new"})
    b.joined(first)
    a.join()
    twin.joined(second)
    settle(a, twin)


@sequence()
def static_duplicate_while_syncing(s: Scene) -> None:
    """A second client with the instance id of one that waits in SyncGroup."""
    a, b = static_pair(s)
    a_waits = a.park_join()
    b.join()
    a.joined(a_waits)
    b_syncs = b.park_sync()
    twin = Member(s, "b2", instance="two")
    waiting = twin.park_join()
    b.peer.finish(b_syncs)
    a.heartbeat()
    a.join()
    twin.joined(waiting)
    settle(a, twin)


@sequence()
def static_leave_by_instance(s: Scene) -> None:
    """An operator removes static members by instance id, without member ids."""
    a, b = static_pair(s)
    operator = Member(s, "operator")
    operator.leave_many(
        MemberIdentity(group_instance_id="two"),
        MemberIdentity(group_instance_id="three"),
        MemberIdentity(member_id="stranger", group_instance_id="one"),
        MemberIdentity(member_id=b.member_id),
    )
    a.heartbeat()
    b.heartbeat()
    a.join()
    settle(a)
    operator.leave_many(MemberIdentity(member_id=a.member_id, group_instance_id="one"), version=3)
    a.heartbeat()


@sequence()
def static_leave_without_instance(s: Scene) -> None:
    """A static member that leaves by member id alone."""
    a, b = static_pair(s)
    b.instance = None
    b.leave()
    a.heartbeat()
    b.leave(version=2)


@sequence()
def static_and_dynamic(s: Scene) -> None:
    """A static and a dynamic member in one group; the static one's return disturbs nobody."""
    a, b = Member(s, "a"), Member(s, "b", instance="two")
    together(a)
    waiting = b.park_join()
    a.join()
    b.joined(waiting)
    settle(a, b)
    again = Member(s, "b2", instance="two")
    again.join()
    again.sync()
    a.heartbeat()


@sequence()
def static_returns_to_an_empty_group(s: Scene) -> None:
    """After its session has expired a static member is a new one."""
    a = Member(s, "a", instance="one")
    a.join(session_ms=300)
    settle(a)
    s.until_members(0)
    a.heartbeat()
    a.join()
    again = Member(s, "a2", instance="one")
    again.join()
    settle(again)


@sequence()
def static_changed_subscription(s: Scene) -> None:
    """A static follower that returns with another real subscription."""
    a, b = Member(s, "a", instance="one"), Member(s, "b", instance="two")
    offers = {"range": subscription("alpha")}
    a.join(offers)
    settle(a)
    waiting = b.park_join(offers)
    a.join(offers)
    b.joined(waiting)
    settle(a, b)
    again = Member(s, "b2", instance="two")
    again.join({"range": subscription("alpha", "beta")})
    a.heartbeat()
    again.sync()
