"""ConsumerGroupHeartbeat: joining, heartbeats, leaving."""

from __future__ import annotations

from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.registry import DEFAULTS, sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def consumer_join_v0(s: Scene) -> None:
    """In v0 the broker makes up the member id of one that has none."""
    a = Consumer(s, "a", member_id="")
    a.join(["alpha"], version=0)
    a.heartbeat(version=0)
    a.acknowledge(version=0)
    b = Consumer(s, "b", group=f"{s.group}-2", member_id="own-id")
    b.join(["alpha"], version=0)
    b.heartbeat(version=0)


@sequence()
def consumer_join_v1(s: Scene) -> None:
    """In v1 the member makes up its own id. It has everything at once; a heartbeat that says
    nothing new is told nothing new."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.heartbeat()
    a.acknowledge()
    a.acknowledge()
    a.heartbeat(topics=["alpha"])
    a.heartbeat(topics=["alpha"], rebalance_ms=30_000, owned={"alpha": [0, 1, 2]})
    a.heartbeat()


@sequence(DEFAULTS)
def consumer_join_with_default_settings(s: Scene) -> None:
    """The heartbeat interval that Kafka tells by default."""
    a = Consumer(s, "a")
    a.join(["alpha"])


@sequence()
def consumer_join_again(s: Scene) -> None:
    """A known member that joins again with epoch 0, with and without changes."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.join(["alpha"])
    a.join(["beta"])
    a.join(["beta"], owned={"beta": [0, 1]})
    a.heartbeat()


@sequence()
def consumer_leave(s: Scene) -> None:
    """Leaving twice, leaving as nobody, and the last member's leave."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"])
    b.join(["alpha"])
    b.leave()
    b.leave()
    b.heartbeat()
    Consumer(s, "stranger").leave()
    a.heartbeat()
    a.leave()
    a.heartbeat()
    a.leave()
    a.join(["alpha"])


@sequence()
def consumer_leave_without_a_group(s: Scene) -> None:
    """Leaving and heartbeats of a group that is not there."""
    a = Consumer(s, "a")
    a.leave()
    a.leave(-2)
    a.heartbeat(epoch=1)
    a.heartbeat(epoch=5)


@sequence()
def consumer_epochs(s: Scene) -> None:
    """Wrong epochs and unknown members."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(epoch=2)
    a.heartbeat(epoch=7)
    a.heartbeat(epoch=-3)
    a.heartbeat(member_id="stranger")
    a.heartbeat(member_id="stranger", epoch=0)
    a.heartbeat()


@sequence()
def consumer_lost_answers(s: Scene) -> None:
    """A member that did not hear of its new epoch goes on with the previous one: accepted if it
    owns no more than it may, else fenced."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(topics=["alpha", "beta"])
    a.heartbeat(epoch=1)
    a.heartbeat(epoch=1, owned={})
    a.heartbeat(epoch=1, owned={"alpha": [0, 1, 2]})
    a.heartbeat(epoch=1, owned={"gamma": [0]})
    a.heartbeat(epoch=1, topics=["alpha", "beta"], owned={"alpha": [0]}, rebalance_ms=30_000)
    a.acknowledge()


@sequence()
def consumer_lost_answers_of_a_revocation(s: Scene) -> None:
    """The answer to the acknowledgement of a revocation was lost, and the request is repeated."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"])
    a.acknowledge()
    b.join(["alpha"])
    a.heartbeat()
    a.heartbeat(owned=a.assigned)
    a.heartbeat(epoch=1, owned=a.assigned)
    a.heartbeat(epoch=1, owned={})
    a.heartbeat(epoch=1)
    a.heartbeat(epoch=1, owned={"alpha": [0, 1, 2]})
    a.heartbeat(epoch=0)
    a.heartbeat()
    b.heartbeat()
    b.heartbeat(epoch=1)
    b.heartbeat()


@sequence()
def consumer_subscriptions(s: Scene) -> None:
    """A member changes its topics, to unknown ones and to none."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(topics=["beta"])
    a.acknowledge()
    a.heartbeat(topics=["beta", "nosuchtopic"])
    a.acknowledge()
    a.heartbeat(topics=["nosuchtopic"])
    a.acknowledge()
    a.heartbeat(topics=[])
    a.acknowledge()
    a.heartbeat(topics=["alpha", "alpha"])
    a.acknowledge()


@sequence()
def consumer_join_unknown_topic(s: Scene) -> None:
    """A member of topics that are not there has nothing."""
    a = Consumer(s, "a")
    a.join(["nosuchtopic"])
    a.heartbeat()
    a.acknowledge()


@sequence()
def consumer_changes_without_effect(s: Scene) -> None:
    """Another rack, another rebalance time-out: whether the group's epoch moves."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(rebalance_ms=5_000)
    a.heartbeat(rack="r1")
    a.heartbeat(rack="r2")
    a.heartbeat(topics=["alpha"])
    a.heartbeat()


@sequence()
def consumer_assignors(s: Scene) -> None:
    """The preferred assignor, one that is not offered, and a change of mind."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"], assignor="nosuchassignor")
    a.join(["alpha"], assignor="")
    a.join(["alpha"], assignor="range")
    a.acknowledge()
    b.join(["alpha"], assignor="uniform")
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    a.heartbeat(assignor="uniform")
    a.heartbeat(assignor="nosuchassignor")
    a.heartbeat()


@sequence()
def consumer_max_size(s: Scene) -> None:
    """The fifth member of at most four is refused; a known one may join again."""
    members = [Consumer(s, name) for name in ("a", "b", "c", "d")]
    for member in members:
        member.join(["alpha"])
    late = Consumer(s, "e")
    late.join(["alpha"])
    members[0].join(["alpha"])
    members[3].leave()
    late.join(["alpha"])
