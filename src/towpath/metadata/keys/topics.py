"""Keys of topics: the record, its partitions, the number counter and the graves of deleted ones."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from towpath.metadata.keys import ROOT, json_value
from towpath.metadata.keys.numbers import pad, unpad

TOPICS_PREFIX = f"{ROOT}/topics/"
DELETED_PREFIX = f"{ROOT}/deleted-topics/"
NEXT_NUMBER = f"{ROOT}/topic-number"
"""The next topic number, decimal; handed out by compare-and-set, never reused."""

PARTITION_BITS = 20
MAX_PARTITIONS = 1 << PARTITION_BITS


def stream_id(topic_number: int, partition: int) -> int:
    """`topic_number << 20 | partition`: a topic's chunks lie together in a WAL object."""
    if not 0 <= partition < MAX_PARTITIONS or not 0 < topic_number < 1 << 44:
        raise ValueError(f"no stream id for topic number {topic_number} partition {partition}")
    return topic_number << PARTITION_BITS | partition


def split_stream_id(stream: int) -> tuple[int, int]:
    """`(topic_number, partition)` of a stream id."""
    return stream >> PARTITION_BITS, stream & (MAX_PARTITIONS - 1)


def topic(name: str) -> str:
    """The topic's record. Kafka names hold no `/`, so partitions can lie beneath it."""
    return f"{TOPICS_PREFIX}{name}"


def partition(name: str, number: int) -> str:
    """One partition's record."""
    return f"{TOPICS_PREFIX}{name}/partitions/{number:07d}"


def partitions_prefix(name: str) -> str:
    """Every partition record of a topic."""
    return f"{TOPICS_PREFIX}{name}/partitions/"


def is_topic(key: str) -> bool:
    """Whether the key is a topic's record (and not a partition's)."""
    name = key[len(TOPICS_PREFIX) :]
    return key.startswith(TOPICS_PREFIX) and name != "" and "/" not in name


def topic_name(key: str) -> str:
    """The name in a topic's or a partition's key."""
    return key[len(TOPICS_PREFIX) :].split("/", 1)[0]


def deleted(topic_number: int) -> str:
    """The grave of a deleted topic, kept until every trace of its streams is swept."""
    return f"{DELETED_PREFIX}{pad(topic_number)}"


def parse_deleted(key: str) -> int:
    """The topic number of a grave's key."""
    if not key.startswith(DELETED_PREFIX):
        raise ValueError(f"{key!r} is not the key of a deleted topic")
    return unpad(key[len(DELETED_PREFIX) :])


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """The stored topic."""

    topic_id: uuid.UUID
    number: int
    partitions: int
    config: dict[str, str] = field(default_factory=dict)
    created_at_ms: int = 0

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "topicId": str(self.topic_id),
                "number": self.number,
                "partitions": self.partitions,
                "config": self.config,
                "createdAt": self.created_at_ms,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> TopicRecord:
        fields = json_value.decode(value, 1, "topic")
        return cls(
            uuid.UUID(fields["topicId"]),
            fields["number"],
            fields["partitions"],
            fields["config"],
            fields["createdAt"],
        )


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """The stored partition."""

    stream_id: int
    created_at_ms: int
    state: str = "active"

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "streamId": self.stream_id,
                "state": self.state,
                "createdAt": self.created_at_ms,
                "configOverrides": {},
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> PartitionRecord:
        fields = json_value.decode(value, 1, "partition")
        return cls(fields["streamId"], fields["createdAt"], fields["state"])


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """What the sweeper needs to know of a topic that is gone."""

    name: str
    topic_id: uuid.UUID
    partitions: int
    deleted_at_ms: int

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "name": self.name,
                "topicId": str(self.topic_id),
                "partitions": self.partitions,
                "deletedAt": self.deleted_at_ms,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> DeletedTopic:
        fields = json_value.decode(value, 1, "deleted topic")
        return cls(
            fields["name"], uuid.UUID(fields["topicId"]), fields["partitions"], fields["deletedAt"]
        )
