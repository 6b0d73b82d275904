"""Every row of the groups' result: its unit, what it is held against, and its goals."""

from __future__ import annotations

from bench.goals import Goal
from bench.shared.bounds import Bound
from bench.shared.rows import Row, Rows
from bench.systems import KAFKA

CLASSIC, CONSUMER = "classic", "consumer"
PROTOCOLS = (CLASSIC, CONSUMER)

SESSION_TIMEOUT_S = 6.0
"""Kafka's default minimum for classic members; the consumer protocol is given the same."""
HEARTBEAT_INTERVAL_S = 1.0
DETECTION_MAX_S = 0.5
"""What a reassignment after a death may take beyond the session time-out."""

FIRST, THIRD, CLOSE, DEATH = "first", "third", "close", "death"
RAW_FIRST = "first-raw"
CHANGES = (THIRD, CLOSE, DEATH)
"""What happens to a group of three, in this order."""

MANY_GROUPS, ONE_GROUP, ONE_CONSUMER_GROUP = "groups", "members", "consumer"
COMMITTERS = {
    MANY_GROUPS: "64 classic groups of one member",
    ONE_GROUP: "one classic group of 64 members",
    ONE_CONSUMER_GROUP: "one group of 64 members, consumer protocol",
}
"""How the 64 who commit at once are grouped."""

NO_SLOWER = (Goal(KAFKA, 1.0),)


def _change_rows(protocol: str) -> tuple[Row, ...]:
    death = (Bound(SESSION_TIMEOUT_S + DETECTION_MAX_S, "s"),)
    title = f"{protocol} protocol"
    return (
        Row(f"{FIRST}-{protocol}", f"first assignment, {title}", "ms", False, KAFKA, NO_SLOWER),
        Row(f"{RAW_FIRST}-{protocol}", f"first assignment without the client's time, {title}", "ms",
            False, KAFKA),
        Row(f"{THIRD}-{protocol}", f"third member's join, {title}", "s", False, KAFKA, NO_SLOWER),
        Row(f"{CLOSE}-{protocol}", f"reassigned after a close, {title}", "s", False, KAFKA,
            NO_SLOWER),
        Row(f"{DEATH}-{protocol}", f"reassigned after a death, {title}", "s", False, KAFKA, death),
    )  # fmt: skip


def _commit_rows(shape: str) -> tuple[Row, ...]:
    title = COMMITTERS[shape]
    return (
        Row(f"commits-{shape}", f"commits, {title}", "1/s", True, KAFKA, NO_SLOWER),
        Row(f"commits-p50-{shape}", f"commit latency p50, {title}", "ms", False, KAFKA),
        Row(f"commits-p99-{shape}", f"commit latency p99, {title}", "ms", False, KAFKA),
    )


ROWS = Rows(
    "groups",
    (
        *(row for protocol in PROTOCOLS for row in _change_rows(protocol)),
        *(row for shape in COMMITTERS for row in _commit_rows(shape)),
        *(
            Row(f"heartbeats-{protocol}", f"heartbeats of 64 members, {protocol} protocol", "1/s",
                True, KAFKA)
            for protocol in PROTOCOLS
        ),
        *(
            Row(f"idle-cpu-{protocol}", f"broker CPU, 1,000 idle members, {protocol} protocol",
                "cores", False, KAFKA)
            for protocol in PROTOCOLS
        ),
    ),
)  # fmt: skip
