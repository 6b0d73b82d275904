"""ConsumerGroupHeartbeat: what time does, with a session time-out of the group's own."""

from __future__ import annotations

from tests.integration.groups_golden.configs import set_group_config
from tests.integration.groups_golden.consumer import LEAVE_STATIC, Consumer
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

CONFIGS = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "200"}


@sequence()
def consumer_expiry(s: Scene) -> None:
    """A silent member is removed and its partitions go to the other."""
    set_group_config(s, CONFIGS)
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join(["alpha"])
    a.acknowledge()
    b.join(["alpha"])
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    b.acknowledge()
    b.until_assigned()
    b.acknowledge()
    a.heartbeat()
    a.join(["alpha"])


@sequence()
def consumer_expiry_of_a_static_member(s: Scene) -> None:
    """A static member that left for a while and does not return within the session time-out."""
    set_group_config(s, CONFIGS)
    a, b = Consumer(s, "a", instance="one"), Consumer(s, "b")
    a.join(["alpha"])
    a.acknowledge()
    b.join(["alpha"])
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    b.acknowledge()
    a.leave(LEAVE_STATIC)
    b.until_assigned()
    again = Consumer(s, "a2", instance="one")
    again.join(["alpha"])
