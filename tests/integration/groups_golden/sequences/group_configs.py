"""Configs of groups: IncrementalAlterConfigs, DescribeConfigs, ListConfigResources."""

from __future__ import annotations

from tests.integration.groups_golden.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    alter,
    describe_config,
)
from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
BOTH = (SESSION, INTERVAL)


@sequence()
def group_config_heartbeat_interval(s: Scene) -> None:
    """A changed interval is told to members, and the old one again when it is deleted."""
    admin = s.peer("admin")
    a = Consumer(s, "a")
    a.join(["alpha"])
    alter(admin, s.group, (INTERVAL, SET, "6000"))
    a.heartbeat_until(lambda answer: answer.heartbeat_interval_ms == 6000, "the new interval")
    describe_config(admin, s.group, BOTH)
    alter(admin, s.group, (INTERVAL, DELETE, None))
    a.heartbeat_until(lambda answer: answer.heartbeat_interval_ms == 5000, "the old interval")
    describe_config(admin, s.group, BOTH)


@sequence()
def group_config_of_an_unknown_group(s: Scene) -> None:
    """A group need not be there to have configs."""
    admin = s.peer("admin")
    describe_config(admin, s.group, BOTH)
    alter(admin, s.group, (SESSION, SET, "50000"))
    describe_config(admin, s.group, BOTH)
    describe_config(admin, s.group, BOTH, synonyms=True)
    describe_config(admin, s.group, BOTH, version=1)


@sequence()
def group_config_invalid(s: Scene) -> None:
    """Unknown names, values out of range, operations that make no sense, empty names."""
    admin = s.peer("admin")
    for value in ("499", "60001", "0", "-1", "x", "", "45000.5"):
        alter(admin, s.group, (SESSION, SET, value))
    for value in ("99", "15001", "x"):
        alter(admin, s.group, (INTERVAL, SET, value))
    alter(admin, s.group, (SESSION, SET, "1000"), (INTERVAL, SET, "2000"))
    alter(admin, s.group, (SESSION, SET, None))
    alter(admin, s.group, ("no.such.config", SET, "1"))
    alter(admin, s.group, ("no.such.config", DELETE, None))
    alter(admin, s.group, (SESSION, APPEND, "1000"))
    alter(admin, s.group, (SESSION, SUBTRACT, "1000"))
    alter(admin, s.group, (SESSION, 9, "1000"))
    alter(admin, s.group, (SESSION, SET, "50000"), (SESSION, SET, "51000"))
    alter(admin, "", (SESSION, SET, "50000"))
    alter(admin, s.group)
    alter(admin, s.group, (SESSION, DELETE, None))
    alter(admin, s.group, (SESSION, SET, "50000"), validate_only=True)
    alter(admin, s.group, (SESSION, SET, "50000"), version=0)
    describe_config(admin, s.group, BOTH)
    describe_config(admin, "", BOTH)
    describe_config(admin, s.group, ["no.such.config"])
