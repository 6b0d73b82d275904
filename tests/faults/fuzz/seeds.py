"""Valid requests of every registered API in every version: what mutations start from."""

from __future__ import annotations

import random
import struct
from typing import Any, NamedTuple

from tests.unit.kafka.codec.helpers_messages import random_message

import towpath.kafka.apis.all  # noqa: F401  (registers every API)
from towpath.kafka.apis.registry import APIS, Api
from towpath.kafka.codec import encode
from towpath.kafka.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from towpath.kafka.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from towpath.kafka.codec.schema import ZERO_UUID, Message
from towpath.records import compression
from towpath.records.build import NewRecord, build_batch

TOPIC = "t"
CORRELATION_ID = 77
SEED_BYTES_MAX = 4000
"""Larger messages are left out: mutations would seldom hit what matters."""
TRIES = 20


class Seed(NamedTuple):
    """One valid request."""

    api: Api
    version: int
    body: bytes

    @property
    def frame(self) -> bytes:
        """The request as it goes over the wire."""
        flexible = self.version >= self.api.request_type.FLEXIBLE_SINCE
        header = struct.pack(">hhih", self.api.key, self.version, CORRELATION_ID, 4) + b"fuzz"
        body = header + (b"\0" if flexible else b"") + self.body
        return struct.pack(">i", len(body)) + body


def seeds() -> list[Seed]:
    """For each API and version a random message about the topic that exists, and the data path's
    requests with records in every compression."""
    found = [
        Seed(api, version, _random_body(api, version))
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
    ]
    for codec in range(len(compression.NAMES)):
        found += _data_requests(codec)
    return found


def batch(codec: int = compression.NONE, timestamp_ms: int = 1_700_000_000_000) -> bytes:
    """A valid batch of some records."""
    records = [NewRecord(value=b"v%d" % i, key=b"k", timestamp_ms=timestamp_ms) for i in range(5)]
    return build_batch(records, codec=codec)


def _random_body(api: Api, version: int) -> bytes:
    chance = random.Random(f"{api.key}.{version}")
    for _ in range(TRIES):
        message = random_message(chance, api.request_type, version)
        _aim(message)
        body = encode(message, version)
        if len(body) <= SEED_BYTES_MAX:
            return body
    return encode(api.request_type(), version)


def _aim(message: Message) -> None:
    """Let names of topics be the one that exists, and waits be short."""
    for field in message.FIELDS:
        value: Any = getattr(message, field.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Message):
                _aim(item)
        names_topic = field.name == "name" or (field.kind == "string" and "topic" in field.name)
        if names_topic and isinstance(value, str):
            setattr(message, field.name, TOPIC)
        elif field.name in ("max_wait_ms", "timeout_ms"):
            setattr(message, field.name, 1)


def _data_requests(codec: int) -> list[Seed]:
    records = batch(codec)
    partition = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name=TOPIC, topic_id=ZERO_UUID, partition_data=[partition])]
    produce = ProduceRequest(acks=-1, timeout_ms=100, topic_data=topics)
    wanted = FetchTopic(
        topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    )
    fetch = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[wanted])
    return [
        *(Seed(APIS[0], version, encode(produce, version)) for version in (3, 8, 9, 12)),
        *(Seed(APIS[1], version, encode(fetch, version)) for version in (4, 11, 12)),
    ]
