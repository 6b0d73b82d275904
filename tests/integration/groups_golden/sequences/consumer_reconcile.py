"""ConsumerGroupHeartbeat: partitions move from member to member."""

from __future__ import annotations

from tests.integration.groups_golden.consumer import Consumer, describe_consumers
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def reconcile_second_member(s: Scene) -> None:
    """The second member gets its share when the first has given it up; the group is described at
    every step."""
    looker = s.peer("looker")
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"])
    describe_consumers(looker, s.group)
    a.acknowledge()
    b.join(["alpha"])
    describe_consumers(looker, s.group)
    b.heartbeat()
    a.heartbeat()
    describe_consumers(looker, s.group)
    a.heartbeat()
    a.heartbeat(owned={"alpha": [0, 1, 2]})
    b.heartbeat()
    a.acknowledge()
    describe_consumers(looker, s.group)
    b.heartbeat()
    describe_consumers(looker, s.group)
    b.acknowledge()
    a.heartbeat()
    describe_consumers(looker, s.group)


@sequence()
def reconcile_three_members(s: Scene) -> None:
    """Three members of six partitions, then one leaves."""
    a, b, c = Consumer(s, "a"), Consumer(s, "b"), Consumer(s, "c")
    a.join(["gamma"])
    a.acknowledge()
    b.join(["gamma"])
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    b.acknowledge()
    c.join(["gamma"])
    a.heartbeat()
    b.heartbeat()
    b.acknowledge()
    c.heartbeat()
    a.acknowledge()
    c.heartbeat()
    c.acknowledge()
    c.leave()
    a.heartbeat()
    b.heartbeat()
    a.acknowledge()
    b.acknowledge()


@sequence()
def reconcile_two_rebalances_at_once(s: Scene) -> None:
    """A third member comes before the first has given up anything for the second."""
    looker = s.peer("looker")
    a, b, c = Consumer(s, "a"), Consumer(s, "b"), Consumer(s, "c")
    a.join(["gamma"])
    a.acknowledge()
    b.join(["gamma"])
    a.heartbeat()
    c.join(["gamma"])
    describe_consumers(looker, s.group)
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    c.heartbeat()
    b.acknowledge()
    c.acknowledge()
    a.heartbeat()
    describe_consumers(looker, s.group)


@sequence()
def reconcile_member_dies_while_revoking(s: Scene) -> None:
    """The member that was to give up partitions leaves: the other gets everything."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"])
    a.acknowledge()
    b.join(["alpha"])
    a.heartbeat()
    a.leave()
    b.heartbeat()
    b.acknowledge()


@sequence()
def reconcile_owner_never_acknowledges(s: Scene) -> None:
    """A member that does not give up partitions within its rebalance time-out is fenced."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"], rebalance_ms=700)
    a.acknowledge()
    b.join(["alpha"])
    a.heartbeat()
    a.until_error()
    b.until_assigned()
    b.acknowledge()
    a.join(["alpha"])


@sequence()
def reconcile_range_assignor(s: Scene) -> None:
    """Two members of two topics with the range assignor."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha", "beta"], assignor="range")
    a.acknowledge()
    b.join(["alpha", "beta"], assignor="range")
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    b.acknowledge()


@sequence()
def reconcile_different_topics(s: Scene) -> None:
    """Members of different topics, with both assignors."""
    for assignor in ("uniform", "range"):
        a = Consumer(s, "a", group=f"{s.group}-{assignor}")
        b = Consumer(s, "b", group=f"{s.group}-{assignor}")
        c = Consumer(s, "c", group=f"{s.group}-{assignor}")
        a.join(["alpha"], assignor=assignor)
        b.join(["beta"], assignor=assignor)
        c.join(["gamma"], assignor=assignor)
        a.heartbeat()
        b.heartbeat()
        c.heartbeat()
        b.heartbeat(topics=["alpha"])
        a.heartbeat()
        a.acknowledge()
        b.heartbeat()
        b.acknowledge()
        b.heartbeat()


@sequence()
def reconcile_more_members_than_partitions(s: Scene) -> None:
    """Three members of two partitions: one has nothing."""
    a, b, c = Consumer(s, "a"), Consumer(s, "b"), Consumer(s, "c")
    for member in (a, b, c):
        member.join(["beta"])
    for member in (a, b, c):
        member.heartbeat()
        member.acknowledge()
    for member in (a, b, c):
        member.heartbeat()
    a.leave()
    b.heartbeat()
    c.heartbeat()


@sequence()
def reconcile_revocation_says_it_all_at_once(s: Scene) -> None:
    """A member that reports what it owns in every heartbeat, as the Java client does at times."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"])
    a.heartbeat(owned={"alpha": [0, 1, 2]}, topics=["alpha"], rebalance_ms=30_000)
    b.join(["alpha"])
    a.heartbeat(owned={"alpha": [0, 1, 2]}, topics=["alpha"], rebalance_ms=30_000)
    a.heartbeat(owned={"alpha": [0]}, topics=["alpha"], rebalance_ms=30_000)
    a.heartbeat(owned={"alpha": [0, 1]}, topics=["alpha"], rebalance_ms=30_000)
    b.heartbeat()
