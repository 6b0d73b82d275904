"""ConsumerGroupDescribe."""

from __future__ import annotations

from tests.integration.groups_golden.classic import Member, together
from tests.integration.groups_golden.consumer import Consumer, describe_consumers
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene


@sequence()
def consumer_describe_every_kind(s: Scene) -> None:
    """Stable, empty, classic, unknown and without a name; both versions."""
    looker = s.peer("looker")
    a = Consumer(s, "a", instance="one", rack="r1", group=f"{s.group}-stable")
    a.join(["alpha", "beta"], assignor="range")
    gone = Consumer(s, "b", group=f"{s.group}-empty")
    gone.join(["alpha"])
    gone.leave()
    classic = Member(s, "c", group=f"{s.group}-classic")
    together(classic)
    for version in (0, 1):
        describe_consumers(
            looker, a.group, gone.group, classic.group, "nobody", "", a.group, version=version
        )
        describe_consumers(looker, version=version)
        describe_consumers(looker, a.group, "nobody", version=version, operations=True)
