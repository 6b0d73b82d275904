"""What the data-path handlers' tests share: services on fakes, batches, and the way over the wire.

A request goes as it would from a client: encoded in a version, decoded, handled, and its answer
encoded and decoded again.
"""

from __future__ import annotations

import asyncio
import random
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import crc32c
from tests.unit.kafka.apis_data.fake_log import FakeLog

from towpath.cluster.interface import Cluster
from towpath.cluster.view import View
from towpath.kafka.apis.registry import APIS, RequestContext
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.schema import ApiMessage
from towpath.kafka.services import KafkaSettings, Services
from towpath.log.interface import Log
from towpath.log.producer_ids import ProducerIds
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.observe.metrics import Metrics
from towpath.records.batch import HEADER, HEADER_SIZE_BYTES
from towpath.runtime import InlineOffload, Runtime, SystemClock
from towpath.topics.interface import NewTopic, Topic, Topics, TopicSettings

NOW_MS = 1_700_000_000_000
BROKER_ID = 1
OTHER_BROKER_ID = 2


class FakeTopics(Topics):
    """Topics by name; those in `unseen` come into view at the next refresh."""

    def __init__(self) -> None:
        self.known: dict[str, Topic] = {}
        self.unseen: dict[str, Topic] = {}
        self.refreshes = 0
        self.failure: Exception | None = None

    async def refresh(self) -> None:
        self.refreshes += 1
        if self.failure is not None:
            raise self.failure
        self.known.update(self.unseen)

    @property
    def changes(self) -> int:
        return self.refreshes

    def get(self, name: str) -> Topic | None:
        return self.known.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return next((topic for topic in self.known.values() if topic.topic_id == topic_id), None)

    def get_by_number(self, number: int) -> Topic | None:
        return next((topic for topic in self.known.values() if topic.number == number), None)

    def all(self) -> Iterable[Topic]:
        return [self.known[name] for name in sorted(self.known)]

    async def create(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        raise NotImplementedError

    async def delete(self, topic: Topic) -> None:
        raise NotImplementedError

    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: list[tuple[int, ...]] | None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        raise NotImplementedError

    async def alter(
        self,
        name: str,
        change: Mapping[str, str | None],
        *,
        replace: bool,
        validate_only: bool = False,
        expect_version: int | None = None,
    ) -> Topic:
        raise NotImplementedError


class OddView(View):
    """Odd streams are shown as led by the other broker."""

    def leader(self, stream_id: int) -> int:
        return OTHER_BROKER_ID if stream_id % 2 else BROKER_ID


class FakeCluster(Cluster):
    """Two brokers in two zones; clients of no zone see an `OddView`."""

    def __init__(self) -> None:
        self.cluster_id = "test"
        self.broker_id = BROKER_ID
        self.views: dict[str | None, View] = {}
        self.put_here_in_rack(None)

    def put_here_in_rack(self, rack: str | None) -> None:
        """Give this broker a rack; the other one's is `r2`."""
        here = BrokerRecord(BROKER_ID, "here", 9092, 0, "test", zone_id="z1", rack=rack)
        there = BrokerRecord(OTHER_BROKER_ID, "there", 9093, 0, "test", zone_id="z2", rack="r2")
        self.views = {None: OddView([here, there]), "z1": View([here]), "z2": View([there])}

    async def refresh(self) -> None:
        return

    def view(self, zone: str | None) -> View:
        return self.views.get(zone, self.views[None])


class CountingProducerIds(ProducerIds):
    """Ids from 1000 on, or a failure."""

    def __init__(self) -> None:
        self.next = 1000
        self.failure: Exception | None = None

    async def next_id(self) -> int:
        if self.failure is not None:
            raise self.failure
        self.next += 1
        return self.next - 1


class FixedClock(SystemClock):
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW_MS


class Rig:
    """A front end on fakes."""

    def __init__(self, settings: KafkaSettings | None = None, log: Log | None = None) -> None:
        self.log = FakeLog()
        self.topics = FakeTopics()
        self.cluster = FakeCluster()
        self.producer_ids = CountingProducerIds()
        self.metrics = Metrics()
        self.released = asyncio.Event()
        self.services = Services(
            log=log or self.log,
            topics=self.topics,
            cluster=self.cluster,
            producer_ids=self.producer_ids,
            settings=settings or KafkaSettings(),
            metrics=self.metrics,
            runtime=Runtime(FixedClock(), random.Random(1), InlineOffload()),
            broker_configs={},
            groups=cast(Any, None),
            offsets=cast(Any, None),
        )

    def add_topic(
        self, name: str, partitions: int = 1, *, seen: bool = True, **settings: Any
    ) -> Topic:
        """A topic; its number is unique within the rig, its id derived from it."""
        number = 1 + len(self.topics.known) + len(self.topics.unseen)
        topic = Topic(
            name=name,
            topic_id=uuid.UUID(int=number),
            number=number,
            partitions=partitions,
            overrides={},
            settings=topic_settings(**settings),
            version=1,
            created_at_ms=NOW_MS,
        )
        (self.topics.known if seen else self.topics.unseen)[name] = topic
        return topic

    def context(self, api_key: int, version: int, client_id: str | None = "test") -> RequestContext:
        """The context of one request."""
        return RequestContext(
            services=self.services,
            api_key=api_key,
            api_version=version,
            correlation_id=1,
            client_id=client_id,
            connection_id=1,
            peer="127.0.0.1",
            release=self.released.set,
        )

    async def ask(self, request: ApiMessage, version: int, client_id: str | None = "test") -> Any:
        """Send the request over the codec and return the decoded answer (None if there is none)."""
        served = APIS[request.API_KEY]
        assert served.min_version <= version <= served.max_version
        received = decode(served.request_type, version, encode(request, version))
        context = self.context(request.API_KEY, version, client_id)
        response = await served.handle(received, context)
        if response is None:
            return None
        return decode(served.response_type, version, encode(response, version))

    def errors_counted(self, api_name: str, error: str) -> float:
        """How often the error was counted for the API."""
        found = self.metrics.registry.get_sample_value(
            "towpath_request_errors_total", {"api": api_name, "error": error}
        )
        return found or 0.0


def topic_settings(**changes: Any) -> TopicSettings:
    """Kafka's defaults with changes."""
    values: dict[str, Any] = {
        "max_message_bytes": 1_048_588,
        "retention_ms": -1,
        "retention_bytes": -1,
        "log_append_time": False,
        "compact": False,
        "delete": True,
        "timestamp_before_max_ms": 2**63 - 1,
        "timestamp_after_max_ms": 3_600_000,
    }
    return TopicSettings(**(values | changes))


def varint(value: int) -> bytes:
    """A zigzag varint, as records use it."""
    encoded = bytearray()
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def batch(
    values: Sequence[bytes] = (b"v",),
    *,
    key: bytes | None = None,
    timestamp_ms: int = NOW_MS,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """An uncompressed record batch as a producer sends it."""
    records = bytearray()
    for delta, value in enumerate(values):
        key_part = varint(-1) if key is None else varint(len(key)) + key
        body = b"\0" + varint(0) + varint(delta) + key_part + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    count = len(values)
    header = HEADER.pack(
        0, HEADER_SIZE_BYTES - 12 + len(records), -1, 2, 0, attributes, count - 1,
        timestamp_ms, timestamp_ms, *producer, count,
    )  # fmt: skip
    return with_crc(header + bytes(records))


def with_crc(records: bytes) -> bytes:
    """The batch with its checksum made right."""
    checked = records[21:]
    return records[:17] + struct.pack(">I", crc32c.crc32c(checked)) + checked
