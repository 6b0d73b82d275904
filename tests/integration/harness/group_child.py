"""A consumer in a group, in a process of its own, so that it can crash.

Usage: `python -m tests.integration.harness.group_child LIBRARY SETTINGS`, where the settings are
JSON. It tells on stdout, one JSON list per line, what it is assigned and what it consumes; SIGTERM
closes it properly. See `group_members.py`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any

POLL_S = 0.2
LONG_POLL_S = 60.0
"""For kafka-python, which forgets an assignment that comes just when its poll is over (3.0.12)."""
BATCH_MAX = 500


def tell(event: str, *values: Any) -> None:
    """One line for the parent."""
    sys.stdout.write(json.dumps([event, *values]) + "\n")
    sys.stdout.flush()


class Ended(Exception):
    """SIGTERM."""


def _end(*_: object) -> None:
    raise Ended


def run_confluent(settings: dict[str, Any]) -> None:
    """librdkafka; of its cooperative assignor the changes are told, not the whole."""
    from confluent_kafka import Consumer

    protocol = settings.get("protocol", "classic")
    options: dict[str, Any] = {
        "bootstrap.servers": settings["bootstrap"],
        "group.id": settings["group"],
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if protocol == "classic":
        options["session.timeout.ms"] = settings["session_timeout_ms"]
        options["heartbeat.interval.ms"] = settings["heartbeat_interval_ms"]
        options["partition.assignment.strategy"] = settings["strategy"]
    if settings.get("instance_id"):
        options["group.instance.id"] = settings["instance_id"]
    client = Consumer(options)

    def numbers(partitions: Iterable[Any]) -> list[int]:
        return sorted(p.partition for p in partitions)

    client.subscribe(
        [settings["topic"]],
        on_assign=lambda _, given: tell("assigned", numbers(given)),
        on_revoke=lambda _, taken: tell("revoked", numbers(taken)),
        on_lost=lambda _, taken: tell("revoked", numbers(taken)),
    )
    try:
        while True:
            got = [m for m in client.consume(BATCH_MAX, POLL_S) if m.error() is None]
            if got:
                tell("consumed", [[m.partition(), m.offset()] for m in got])
                client.commit(asynchronous=True)
    except Ended:
        client.close()


def run_kafka_python(settings: dict[str, Any]) -> None:
    """kafka-python."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", sorted(tp.partition for tp in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(tp.partition for tp in assigned))

    client = KafkaConsumer(
        bootstrap_servers=settings["bootstrap"].split(","),
        group_id=settings["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        session_timeout_ms=settings["session_timeout_ms"],
        heartbeat_interval_ms=settings["heartbeat_interval_ms"],
        partition_assignment_strategy=[assignors[settings["strategy"]]],
    )
    client.subscribe([settings["topic"]], listener=Listener())
    try:
        while True:
            batches = client.poll(timeout_ms=int(1000 * LONG_POLL_S))
            got = [[r.partition, r.offset] for records in batches.values() for r in records]
            if got:
                tell("consumed", got)
    except Ended:
        client.close()


async def run_aiokafka(settings: dict[str, Any]) -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", sorted(tp.partition for tp in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", sorted(tp.partition for tp in assigned))

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = AIOKafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        session_timeout_ms=settings["session_timeout_ms"],
        heartbeat_interval_ms=settings["heartbeat_interval_ms"],
        partition_assignment_strategy=[assignors[settings["strategy"]]],
    )
    client.subscribe([settings["topic"]], listener=Listener())
    await client.start()
    try:
        while not stop.is_set():
            batches = await client.getmany(timeout_ms=int(1000 * POLL_S))
            got = [[r.partition, r.offset] for records in batches.values() for r in records]
            if got:
                tell("consumed", got)
    finally:
        await client.stop()


def main() -> None:
    """Consume until the end."""
    library, settings = sys.argv[1], json.loads(sys.argv[2])
    if library == "aiokafka":
        asyncio.run(run_aiokafka(settings))
    else:
        signal.signal(signal.SIGTERM, _end)
        {"confluent": run_confluent, "kafka-python": run_kafka_python}[library](settings)
    tell("closed")


if __name__ == "__main__":
    main()
