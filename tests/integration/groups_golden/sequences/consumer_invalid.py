"""ConsumerGroupHeartbeat: every check of a request."""

from __future__ import annotations

import itertools
from typing import Any

from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def consumer_invalid_joins(s: Scene) -> None:
    """Joins with something missing, empty or odd, each to a group of its own."""
    a = Consumer(s, "a")
    number = itertools.count(1)

    def join(version: int = 1, **fields: Any) -> None:
        a.group = f"{s.group}-{next(number)}"
        full = {"topics": ["alpha"], "member_id": "a"} | fields
        a.peer.ask(a.join_request(**full), version)

    join(rebalance_ms=-1)
    join(rebalance_ms=0)
    join(rebalance_ms=-2)
    join(owned=None)
    join(owned={"alpha": [0]}, epoch=0)
    join(topics=None)
    join(topics=None, version=0)
    join(topics=[])
    join(topics=None, regex="")
    join(topics=[], regex="")
    join(topics=["alpha"], regex="")
    join(topics=[""])
    join(topics=["not/valid"])
    join(member_id="")
    join(member_id=" ")
    join(member_id="", version=0)
    join(instance="")
    join(instance=" ")
    join(rack="")
    join(rack=" ")
    join(assignor="")
    join(assignor=" ")
    join(regex="(")
    join(regex="[")
    join(topics=None, regex="(")
    join(epoch=-3)


@sequence()
def consumer_invalid_group_ids(s: Scene) -> None:
    """Empty and blank group ids."""
    for name in ("", " "):
        a = Consumer(s, "a")
        a.group = name
        a.join(["alpha"])
        a.heartbeat(epoch=1)
        a.leave()


@sequence()
def consumer_invalid_heartbeats(s: Scene) -> None:
    """Later heartbeats with wrong fields; the member stays as it was."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.acknowledge()
    a.heartbeat(member_id="")
    a.heartbeat(member_id="", version=0)
    a.heartbeat(instance="")
    a.heartbeat(rack="")
    a.heartbeat(assignor="")
    a.heartbeat(rebalance_ms=-2)
    a.heartbeat(regex="(")
    a.heartbeat(owned={"gamma": [0]})
    a.heartbeat(owned={"alpha": [17]})
    a.leave(-2)
    a.leave(-1, member_id="")
    a.heartbeat()


@sequence()
def consumer_invalid_static_leave(s: Scene) -> None:
    """Epoch -2 without an instance id, and with one nobody has."""
    a = Consumer(s, "a")
    a.join(["alpha"])
    a.leave(-2)
    a.instance = "one"
    a.leave(-2)
    a.leave(-1)
    a.heartbeat()
