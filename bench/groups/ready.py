"""Makes a broker ready for groups: topics, and a coordinator that answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from bench.errors import MeasurementFailed
from bench.groups.wire import ANSWER_TIMEOUT_S, Connection, WrongAnswer, connect
from towpath.kafka.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from towpath.kafka.codec.messages.find_coordinator import FindCoordinatorRequest
from towpath.kafka.codec.messages.metadata import MetadataRequest, MetadataRequestTopic

CREATE_VERSION, METADATA_VERSION, FIND_VERSION = 7, 12, 4
POLL_S = 0.05


def make_ready(port: int, partitions: Mapping[str, int]) -> None:
    """Create topics with so many partitions, and wait until clients would see them and find their
    coordinator. MeasurementFailed if that takes too long."""
    try:
        asyncio.run(_make_ready(port, partitions))
    except (WrongAnswer, TimeoutError, OSError) as error:
        raise MeasurementFailed(f"the broker is not ready for groups: {error}") from error


async def _make_ready(port: int, partitions: Mapping[str, int]) -> None:
    connection = await connect(port)
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in partitions.items()
    ]
    made = await connection.ask(CreateTopicsRequest(topics=topics), CREATE_VERSION)
    if any(topic.error_code for topic in made.topics):
        raise WrongAnswer(f"topics were not created: {made}")
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while not (await _sees(connection, partitions) and await _finds(connection)):
        if time.monotonic() > deadline:
            raise WrongAnswer("no topics, or no coordinator")
        await asyncio.sleep(POLL_S)
    connection.close()


async def _sees(connection: Connection, partitions: Mapping[str, int]) -> bool:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in partitions],
        allow_auto_topic_creation=False,
    )
    topics: list[Any] = (await connection.ask(request, METADATA_VERSION)).topics
    return all(len(topic.partitions) == partitions[topic.name] for topic in topics)


async def _finds(connection: Connection) -> bool:
    found = await connection.ask(FindCoordinatorRequest(coordinator_keys=["ready"]), FIND_VERSION)
    return not found.coordinators[0].error_code


async def topic_id(connection: Connection, name: str) -> Any:
    """The id of a topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return (await connection.ask(request, METADATA_VERSION)).topics[0].topic_id
