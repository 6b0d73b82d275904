"""Starts the brokers that sequences play on, and makes them ready."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from tests.integration.groups_golden.connection import GoldenConnection
from tests.integration.groups_golden.profiles import KAFKA_ONLY, KAFKA_ONLY_OF, PROFILES, TOPICS
from tests.integration.groups_golden.registry import Sequence
from tests.integration.groups_golden.rendering import Json
from tests.integration.groups_golden.scene import Scene
from tests.integration.harness.kafka_peer import KafkaPeer
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

from towpath.kafka.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest
from towpath.kafka.codec.messages.find_coordinator import FindCoordinatorRequest
from towpath.kafka.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from towpath.kafka.codec.schema import ApiMessage

READY_TIMEOUT_S = 60.0
NOT_READY = {14, 15, 16}


class Server(Protocol):
    """A broker process of either kind."""

    kafka_port: int
    process: ServerProcess

    def start(self) -> None: ...

    def stop(self) -> Any: ...


class GoldenBroker:
    """A running broker with the topics of `profiles.TOPICS`, whose coordinator answers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        server.start()
        connection = GoldenConnection(server.kafka_port, "preparing")
        self.topic_ids = make_topics(connection, TOPICS)
        _await_coordinator(connection)
        connection.close()

    def play(self, sequence: Sequence) -> Json:
        """Run a sequence; what was asked and answered."""
        scene = Scene(sequence.name, self.server.kafka_port, dict(self.topic_ids))
        try:
            sequence.play(scene)
        except AssertionError:
            print(*(json.dumps(step) for step in scene.steps), sep="\n")
            raise
        finally:
            scene.close()
        return {
            "sequence": sequence.name,
            "about": sequence.about,
            "profile": sequence.profile,
            "steps": scene.steps,
        }

    def stop(self) -> None:
        """Stop the process."""
        self.server.stop()


def start_kafka(directory: Path, profile: str) -> GoldenBroker:
    """A new Apache Kafka with the settings of a profile."""
    own = KAFKA_ONLY | KAFKA_ONLY_OF.get(profile, {})
    return GoldenBroker(KafkaPeer(directory, PROFILES[profile] | own))


def start_towpath(directory: Path, profile: str) -> GoldenBroker:
    """A new Towpath with the settings of a profile."""
    settings = {name.replace(".", "_"): value for name, value in PROFILES[profile].items()}
    return GoldenBroker(TowpathProcess(directory, settings=settings))


def make_topics(connection: GoldenConnection, partitions: dict[str, int]) -> dict[str, str]:
    """Create topics, and wait until they are seen; their ids."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in partitions.items()
        ]
    )
    for made in _ask(connection, request, 7).topics:
        assert made.error_code == 0, made
    ids: dict[str, str] = {}
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in partitions],
        allow_auto_topic_creation=False,
    )

    def seen() -> bool:
        topics = _ask(connection, wanted, 12).topics
        ids.update({topic.name: str(topic.topic_id) for topic in topics})
        return all(t.error_code == 0 and len(t.partitions) == partitions[t.name] for t in topics)

    wait_until(seen, "topics seen", timeout_s=READY_TIMEOUT_S)
    return ids


def _await_coordinator(connection: GoldenConnection) -> None:
    def ready() -> bool:
        found = _ask(connection, FindCoordinatorRequest(coordinator_keys=["ready"]), 4)
        if found.coordinators[0].error_code:
            return False
        answer = _ask(connection, DescribeGroupsRequest(groups=["ready"]), 0)
        return answer.groups[0].error_code not in NOT_READY

    wait_until(ready, "the coordinator", timeout_s=READY_TIMEOUT_S)


def _ask(connection: GoldenConnection, request: ApiMessage, version: int) -> Any:
    return connection.send(request, version).read()
