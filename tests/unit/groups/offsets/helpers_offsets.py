"""Brokers without a network that serve committed offsets on one memory store."""

from __future__ import annotations

import random
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tests.unit.helpers_topics import FaultyStore

from towpath.cluster.membership import Membership
from towpath.groups.classic.member import Member, Protocol
from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.coordinator import GroupCoordinator
from towpath.groups.kinds import KINDS
from towpath.groups.offsets.offsets import Offsets
from towpath.groups.offsets.sweeper import OffsetSweeper
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Outcome
from towpath.kafka.apis.all import APIS
from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.codec import decode, encode
from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from towpath.kafka.codec.schema import ApiMessage
from towpath.kafka.services import KafkaSettings, Services
from towpath.log.interface import Log
from towpath.log.producer_ids import ProducerIds
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime, SystemClock
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic

Answer = TypeVar("Answer", bound=ApiMessage)
Committed = dict[tuple[str, int], int]
"""Offset by topic and partition; as an answer, -1 where there is none."""

START_MS = 1_700_000_000_000


class ManualClock(SystemClock):
    """A wall clock that tests move."""

    def __init__(self) -> None:
        self.wall_ms = START_MS

    def now_ms(self) -> int:
        return self.wall_ms


@dataclass
class OffsetsRig:
    """One broker."""

    store: FaultyStore
    clock: ManualClock
    catalog: TopicCatalog
    cluster: Membership
    groups: GroupCoordinator
    offsets: Offsets
    services: Services
    settings: GroupSettings
    released: list[int] = field(default_factory=list)

    async def call(self, request: Any, answer: type[Answer], version: int) -> Answer:
        """Send a request in a version and decode what the client would get."""
        api = APIS[type(request).API_KEY]
        assert api.min_version <= version <= api.max_version
        seen = decode(type(request), version, encode(request, version))
        context = RequestContext(
            services=self.services,
            api_key=api.key,
            api_version=version,
            correlation_id=1,
            client_id="test",
            connection_id=1,
            peer="127.0.0.1:5",
            release=lambda: self.released.append(1),
        )
        response = await api.handle(seen, context)
        assert isinstance(response, answer)
        return decode(answer, version, encode(response, version))

    async def commit(
        self, group_id: str, offsets: Committed, version: int = 9, **fields: Any
    ) -> list[int]:
        """The error codes of a commit, in the order of the answer."""
        request = self.commit_request(group_id, offsets, version, **fields)
        answer = await self.call(request, OffsetCommitResponse, version)
        return [partition.error_code for topic in answer.topics for partition in topic.partitions]

    def commit_request(
        self, group_id: str, offsets: Committed, version: int, **fields: Any
    ) -> OffsetCommitRequest:
        """A commit. `leader_epoch` and `metadata` are for all partitions."""
        leader_epoch = fields.pop("leader_epoch", -1)
        metadata = fields.pop("metadata", "")
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, number), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
            if version >= 10 and (known := self.catalog.get(name)) is not None:
                topic.topic_id = known.topic_id
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        return OffsetCommitRequest(group_id=group_id, topics=list(topics.values()), **fields)

    async def fetch(
        self, group_id: str, wanted: Sequence[tuple[str, int]] | None, version: int = 9
    ) -> Committed:
        """The offsets of a group, as a client of the version asks for them."""
        answer = await self.call(
            self.fetch_request(group_id, wanted, version), OffsetFetchResponse, version
        )
        assert answer.error_code == 0
        topics: Sequence[Any] = answer.topics
        if version >= 8:
            (group,) = answer.groups
            assert (group.group_id, group.error_code) == (group_id, 0)
            topics = group.topics
        found: Committed = {}
        for topic in topics:
            name = topic.name
            if version >= 10:
                known = self.catalog.get_by_id(topic.topic_id)
                name = "" if known is None else known.name
            for partition in topic.partitions:
                assert partition.error_code == 0
                found[name, partition.partition_index] = partition.committed_offset
        return found

    def fetch_request(
        self, group_id: str, wanted: Sequence[tuple[str, int]] | None, version: int
    ) -> OffsetFetchRequest:
        """A fetch in the form of the version."""
        by_topic: dict[str, list[int]] = {}
        for name, number in wanted or ():
            by_topic.setdefault(name, []).append(number)
        if version < 8:
            old = [
                OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in by_topic.items()
            ]
            return OffsetFetchRequest(group_id=group_id, topics=None if wanted is None else old)
        topics = []
        for name, numbers in by_topic.items():
            topic = OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
            if version >= 10 and (known := self.catalog.get(name)) is not None:
                topic.topic_id = known.topic_id
            topics.append(topic)
        group = OffsetFetchRequestGroup(
            group_id=group_id, topics=None if wanted is None else topics
        )
        return OffsetFetchRequest(groups=[group])

    async def set_group(self, group_id: str, state: GroupState | None) -> None:
        """Put a group into a state, as another broker's step would."""
        await self.groups.apply(group_id, lambda old, env: Outcome(state, None))

    def sweeper(self) -> OffsetSweeper:
        """What removes old offsets."""
        return OffsetSweeper(self.store, self.groups, self.catalog, self.clock, self.settings)


@asynccontextmanager
async def offsets_rig(
    store: FaultyStore | None = None,
    *,
    broker_id: int = 1,
    clock: ManualClock | None = None,
    settings: GroupSettings | None = None,
    topics: dict[str, int] | None = None,
) -> AsyncIterator[OffsetsRig]:
    """A started broker, with topics `a` (3 partitions) and `b` (1) if the store has none."""
    store, clock = store or FaultyStore(), clock or ManualClock()
    settings = settings or GroupSettings()
    runtime = Runtime(clock, random.Random(7), InlineOffload())
    me = BrokerRecord(broker_id, "127.0.0.1", 9092, 1, "test")
    cluster = Membership(store, "test-cluster", me)
    catalog = TopicCatalog(store, runtime, TopicDefaults(), lambda: [broker_id])
    await cluster.start()
    await catalog.start()
    groups = GroupCoordinator(
        store, runtime, catalog, cluster, settings, KINDS, session_ttl_ms=10_000
    )
    await groups.start()
    offsets = Offsets(store, groups, catalog, cluster.registration)
    services = Services(
        log=cast(Log, None),
        topics=catalog,
        cluster=cluster,
        producer_ids=ProducerIds(store),
        settings=KafkaSettings(),
        metrics=Metrics(),
        runtime=runtime,
        broker_configs={},
        groups=groups,
        offsets=offsets,
    )
    for name, partitions in (topics if topics is not None else {"a": 3, "b": 1}).items():
        if catalog.get(name) is None:
            await catalog.create(NewTopic(name, partitions))
    try:
        yield OffsetsRig(store, clock, catalog, cluster, groups, offsets, services, settings)
    finally:
        await offsets.close()
        await groups.close()
        await catalog.close()
        await cluster.close()


def subscription(*topics: str) -> bytes:
    """What a consumer joins with."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def classic_group(
    generation: int,
    *member_ids: str,
    phase: Phase = Phase.STABLE,
    topics: Sequence[str] = ("a",),
    protocol_type: str | None = "consumer",
    instance_id: str | None = None,
    since_ms: int = START_MS,
) -> ClassicGroup:
    """A classic group with these members, who are subscribed to the topics."""
    members = {
        member_id: Member(
            member_id,
            instance_id,
            "test",
            "/127.0.0.1",
            45_000,
            300_000,
            (Protocol("range", subscription(*topics)),),
        )
        for member_id in member_ids
    }
    return ClassicGroup(
        phase=phase,
        generation=generation,
        protocol_name="range" if members else None,
        group_protocol_type=protocol_type,
        leader_id=next(iter(members), None),
        members=members,
        since_ms=since_ms,
    )
