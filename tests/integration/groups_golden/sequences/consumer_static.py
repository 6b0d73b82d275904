"""ConsumerGroupHeartbeat: static members."""

from __future__ import annotations

from tests.integration.groups_golden.consumer import LEAVE_STATIC, Consumer, describe_consumers
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def consumer_static_join(s: Scene) -> None:
    """A static member joins; later heartbeats may or may not carry the instance id."""
    a = Consumer(s, "a", instance="one")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat()
    a.heartbeat(instance="one")
    a.heartbeat(instance="two")
    a.heartbeat(member_id="stranger", instance="one")


@sequence()
def consumer_static_duplicate(s: Scene) -> None:
    """The instance id of a living member is refused to another."""
    a, twin = Consumer(s, "a", instance="one"), Consumer(s, "twin", instance="one")
    a.join(["alpha"])
    a.acknowledge()
    twin.join(["alpha"])
    twin.heartbeat(epoch=1, instance="one")
    twin.leave()
    twin.leave(LEAVE_STATIC)
    a.heartbeat()


@sequence()
def consumer_static_leave_and_return(s: Scene) -> None:
    """A static member that left for a while keeps its partitions, and returns under another member
    id without a rebalance."""
    looker = s.peer("looker")
    a, b = Consumer(s, "a", instance="one"), Consumer(s, "b")
    a.join(["alpha"])
    b.join(["alpha"])
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    b.acknowledge()
    a.leave(LEAVE_STATIC)
    describe_consumers(looker, s.group)
    b.heartbeat()
    a.heartbeat()
    a.heartbeat(instance="one")
    again = Consumer(s, "a2", instance="one")
    again.join(["alpha"])
    again.acknowledge()
    a.heartbeat()
    a.heartbeat(instance="one")
    a.leave()
    b.heartbeat()
    describe_consumers(looker, s.group)


@sequence()
def consumer_static_returns_with_other_topics(s: Scene) -> None:
    """A static member that returns with another subscription moves the group's epoch."""
    a = Consumer(s, "a", instance="one")
    a.join(["alpha"])
    a.acknowledge()
    a.leave(LEAVE_STATIC)
    again = Consumer(s, "a2", instance="one")
    again.join(["beta"])
    again.acknowledge()


@sequence()
def consumer_static_leave_for_good(s: Scene) -> None:
    """With epoch -1 a static member is gone at once."""
    a, b = Consumer(s, "a", instance="one"), Consumer(s, "b")
    a.join(["alpha"])
    a.acknowledge()
    b.join(["alpha"])
    a.leave()
    b.heartbeat()
    again = Consumer(s, "a2", instance="one")
    again.join(["alpha"])


@sequence()
def consumer_static_leave_twice(s: Scene) -> None:
    """Leaving for a while, then for good, and both again."""
    a = Consumer(s, "a", instance="one")
    a.join(["alpha"])
    a.leave(LEAVE_STATIC)
    a.leave(LEAVE_STATIC)
    a.leave()
    a.leave()


@sequence()
def consumer_static_v0(s: Scene) -> None:
    """In v0 a returning static member gets a new id from the broker."""
    a = Consumer(s, "a", instance="one", member_id="")
    a.join(["alpha"], version=0)
    a.acknowledge(version=0)
    a.leave(LEAVE_STATIC)
    again = Consumer(s, "a2", instance="one", member_id="")
    again.join(["alpha"], version=0)
    again.heartbeat(version=0)
    a.heartbeat(version=0)


@sequence()
def consumer_static_returns_while_rebalancing(s: Scene) -> None:
    """Another member joins while the static one is away."""
    a, b = Consumer(s, "a", instance="one"), Consumer(s, "b")
    a.join(["alpha"])
    a.acknowledge()
    a.leave(LEAVE_STATIC)
    b.join(["alpha"])
    again = Consumer(s, "a2", instance="one")
    again.join(["alpha"])
    again.acknowledge()
    b.heartbeat()
