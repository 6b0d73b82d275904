"""ConsumerGroupHeartbeat: members that tell racks. One broker without a rack: nothing changes."""

from __future__ import annotations

from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def racks_of_members(s: Scene) -> None:
    """Both assignors with racks."""
    for assignor in ("uniform", "range"):
        a = Consumer(s, "a", rack="r1", group=f"{s.group}-{assignor}")
        b = Consumer(s, "b", rack="r2", group=f"{s.group}-{assignor}")
        a.join(["gamma"], assignor=assignor)
        a.acknowledge()
        b.join(["gamma"], assignor=assignor)
        a.heartbeat()
        a.acknowledge()
        b.heartbeat()
