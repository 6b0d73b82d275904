"""Topics made and looked at through confluent-kafka's AdminClient, for tests of any client."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

from confluent_kafka import TopicPartition
from tests.integration.harness.confluent_admin import AdminClient, NewTopic, OffsetSpec
from tests.integration.harness.waiting import wait_until

REQUEST_TIMEOUT_S = 30.0
_numbers = itertools.count(1)


def unique_name(prefix: str = "topic") -> str:
    """A topic name no other test of this run uses, on any worker."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


@functools.lru_cache(maxsize=8)
def admin_client(bootstrap: str) -> Any:
    """The AdminClient of an address, kept: one that is collected forgets its pending answers."""
    settings = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 30_000, "log_level": 0}
    return AdminClient(settings)


def create_topic(
    bootstrap: str,
    name: str | None = None,
    *,
    partitions: int = 1,
    config: dict[str, str] | None = None,
) -> str:
    """Create a topic and wait until clients can use it; its name (made up if not given)."""
    topic = name or unique_name()
    client = admin_client(bootstrap)
    new = NewTopic(topic, num_partitions=partitions, config=config or {})
    client.create_topics([new])[topic].result(REQUEST_TIMEOUT_S)
    wait_until(lambda: partition_count(client, topic) == partitions, f"{topic} seen")
    return topic


def partition_count(client: Any, topic: str) -> int:
    """How many partitions with a leader the topic has; 0 if it is not there."""
    seen = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(topic)
    if seen is None or seen.error is not None:
        return 0
    return sum(1 for partition in seen.partitions.values() if partition.leader >= 0)


def end_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The log end offset."""
    return offset_at(bootstrap, topic, OffsetSpec.latest(), partition)


def offset_at(bootstrap: str, topic: str, spec: Any, partition: int = 0) -> int:
    """The offset that an OffsetSpec finds."""
    where = TopicPartition(topic, partition)
    future = admin_client(bootstrap).list_offsets({where: spec})[where]
    return int(future.result(REQUEST_TIMEOUT_S).offset)
