"""Topics that change while groups subscribe to them. None of this is recorded."""

from __future__ import annotations

from tests.integration.groups_golden.scene import Scene

from towpath.kafka.codec.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from towpath.kafka.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from towpath.kafka.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from towpath.kafka.codec.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_MS = 10_000


def create_topic(scene: Scene, name: str, partitions: int) -> None:
    """Create a topic and wait until it is seen."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    made = scene.look(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7).topics[0]
    assert made.error_code == 0, made
    scene.know_topic(name, str(made.topic_id))
    _await_partitions(scene, name, partitions)


def add_partitions(scene: Scene, name: str, count: int) -> None:
    """Grow a topic to `count` partitions and wait until they are seen."""
    grown = CreatePartitionsTopic(name=name, count=count, assignments=None)
    answer = scene.look(CreatePartitionsRequest(topics=[grown], timeout_ms=TIMEOUT_MS), 3)
    assert answer.results[0].error_code == 0, answer
    _await_partitions(scene, name, count)


def delete_topic(scene: Scene, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    topics = [DeleteTopicState(name=name)]
    answer = scene.look(DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 6)
    assert answer.responses[0].error_code == 0, answer
    _await_partitions(scene, name, 0)


def _await_partitions(scene: Scene, name: str, count: int) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    scene.look_until(
        request,
        12,
        lambda answer: len(answer.topics[0].partitions) == count,
        f"{count} partitions of {name}",
    )
