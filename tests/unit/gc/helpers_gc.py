"""Shared by the collectors' tests: a clock to turn, a small broker, and stores that crash."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.unit.gc.helpers_fused import Crash, Fuse, FusedObjects, FusedStore

from towpath.gc.deleted_topics import DeletedTopics
from towpath.gc.entries import advance_log_start, read_log_start
from towpath.gc.orphans import OrphanCollector
from towpath.gc.retention import Retention
from towpath.gc.settings import GcSettings
from towpath.gc.summary import Summary
from towpath.gc.wal import WalCollector
from towpath.metadata.keys import streams, topics, wal
from towpath.metadata.memory import MemoryStore
from towpath.metadata.proto.index_pb2 import (
    TOMBSTONE,
    WAL,
    BatchRow,
    IndexEntry,
    Producer,
    WalLocation,
)
from towpath.metadata.store import (
    ABSENT,
    Append,
    ConditionFailed,
    KeyIs,
    KeyValue,
    MetadataStore,
    Put,
    prefix_end,
)
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime
from towpath.topics.interface import NewTopic, Topic, Topics, TopicSettings

START_MS = 1_700_000_000_000
SETTINGS = GcSettings(wal_gc_grace_ms=1_000, wal_orphan_ttl_ms=10_000)
KEEP_ALL = TopicSettings(
    max_message_bytes=1 << 20,
    retention_ms=-1,
    retention_bytes=-1,
    log_append_time=False,
    compact=False,
    delete=True,
    timestamp_before_max_ms=1 << 62,
    timestamp_after_max_ms=1 << 62,
)


class TurnedClock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class StoredTopics(Topics):
    """The topics of a store as `refresh` found them, with settings given by number."""

    def __init__(self, store: MetadataStore, settings: Mapping[int, TopicSettings]) -> None:
        self.store = store
        self.settings = settings
        self.found: list[Topic] = []

    async def refresh(self) -> None:
        rows = await self.store.scan(topics.TOPICS_PREFIX, prefix_end(topics.TOPICS_PREFIX))
        self.found = [self._topic(row) for row in rows if topics.is_topic(row.key)]

    def _topic(self, row: KeyValue) -> Topic:
        record = topics.TopicRecord.decode(row.value)
        return Topic(
            topics.topic_name(row.key),
            record.topic_id,
            record.number,
            record.partitions,
            {},
            self.settings.get(record.number, KEEP_ALL),
            row.version,
            record.created_at_ms,
        )

    def all(self) -> Iterable[Topic]:
        return self.found

    @property
    def changes(self) -> int:
        raise NotImplementedError

    def get(self, name: str) -> Topic | None:
        raise NotImplementedError

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        raise NotImplementedError

    def get_by_number(self, number: int) -> Topic | None:
        raise NotImplementedError

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


@dataclass
class Block:
    """A staging block as its broker knows it."""

    block_id: uuid.UUID
    version: int
    prefix: str
    taken: int = 0


@dataclass
class World:
    """A cluster's stores, their collectors, and the smallest broker that writes real metadata."""

    seed: int = 1
    clock: TurnedClock = field(default_factory=TurnedClock)
    retention: dict[int, TopicSettings] = field(default_factory=dict)
    saved_producers: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.runtime = Runtime(self.clock, self.chance, InlineOffload())
        self.store = MemoryStore(self.runtime)
        self.objects = MemoryObjectStore(self.runtime)
        self.metrics = Metrics()
        self.block: Block | None = None

    # Collectors

    async def save_producers(self, stream_id: int, offset_end: int) -> None:
        self.saved_producers.append((stream_id, offset_end))

    async def run(self, job: str, crash_after: int | None = None) -> Summary | None:
        """One round of a collector in a process of its own; None if it crashed."""
        fuse = Fuse(random.Random(self.chance.getrandbits(32)), crash_after)
        store = FusedStore(self.store, fuse)
        # Collectors must be right on stores without conditional commits, and with more domains.
        store.supports_conditions = self.chance.random() < 0.5
        store.domain_count = self.chance.choice((1, 2))
        objects = FusedObjects(self.objects, fuse)
        try:
            return await self.collector(job, store, objects).run_once()
        except Crash:
            return None

    def collector(
        self, job: str, store: MetadataStore, objects: ObjectStore
    ) -> Retention | DeletedTopics | WalCollector | OrphanCollector:
        if job == "retention":
            stored = StoredTopics(store, self.retention)
            return Retention(store, stored, self.save_producers, self.runtime)
        if job == "deleted":
            return DeletedTopics(store, self.runtime, SETTINGS)
        if job == "wal":
            return WalCollector(store, objects, self.runtime, SETTINGS, self.metrics)
        assert job == "orphans"
        return OrphanCollector(store, objects, self.runtime, SETTINGS, self.metrics)

    # The broker

    async def create_topic(self, number: int, partitions: int = 2) -> None:
        topic_id = self.runtime.uuid4()
        record = topics.TopicRecord(topic_id, number, partitions, {}, self.clock.ms)
        await self.store.put(topics.topic(f"t{number}"), record.encode())
        for partition in range(partitions):
            value = topics.PartitionRecord(topics.stream_id(number, partition), self.clock.ms)
            await self.store.put(topics.partition(f"t{number}", partition), value.encode())

    async def delete_topic(self, number: int, *, crash_before_delete: bool = False) -> None:
        found = await self.store.get(topics.topic(f"t{number}"))
        if found is None:
            return
        record = topics.TopicRecord.decode(found.value)
        grave = topics.DeletedTopic(f"t{number}", record.topic_id, record.partitions, self.clock.ms)
        await self.store.put(topics.deleted(number), grave.encode())
        if not crash_before_delete:
            await self.store.delete(topics.topic(f"t{number}"))

    async def reserve_block(self) -> Block:
        block_id = wal.new_block(self.chance.getrandbits(128))
        prefix = "c/wal/v1/zone=z/domain=0/date=2026/01/01/"
        marker = wal.StagingBlock(prefix, self.clock.ms, 1)
        key = wal.staging(0, block_id)
        self.block = Block(
            block_id, await self.store.put(key, marker.encode(), expect=ABSENT), prefix
        )
        return self.block

    async def retire_block(self) -> None:
        """Give the marker back, as a broker does that has settled all its ids."""
        if self.block is not None:
            key = wal.staging(0, self.block.block_id)
            found = await self.store.get(key)
            if found is not None and found.version == self.block.version:
                await self.store.delete(key, expect=found.version)
        self.block = None

    async def put_object(self) -> tuple[uuid.UUID, str, Block]:
        block = self.block or await self.reserve_block()
        wal_id = wal.wal_id(block.block_id, block.taken)
        block.taken += 1
        path = f"{block.prefix}{wal_id}.wo"
        await self.objects.put(path, [b"object"])
        return wal_id, path, block

    async def append(
        self,
        stream_ids: Sequence[int],
        *,
        records: int = 10,
        size_bytes: int = 100,
        timestamp_ms: int | None = None,
        producer_id: int | None = None,
    ) -> str | None:
        """Commit one object with a chunk per stream; None if its block was condemned."""
        wal_id, path, block = await self.put_object()
        await asyncio.sleep(0)
        return await self.commit(
            wal_id,
            path,
            block,
            stream_ids,
            records=records,
            size_bytes=size_bytes,
            timestamp_ms=self.clock.ms if timestamp_ms is None else timestamp_ms,
            producer_id=producer_id,
        )

    async def commit(
        self,
        wal_id: uuid.UUID,
        path: str,
        block: Block,
        stream_ids: Sequence[int],
        *,
        records: int = 10,
        size_bytes: int = 100,
        timestamp_ms: int = START_MS,
        producer_id: int | None = None,
    ) -> str | None:
        row = BatchRow(last_offset_delta=records - 1, length=size_bytes)
        if producer_id is not None:
            row.producer.CopyFrom(Producer(id=producer_id))
        value = IndexEntry(
            version=1,
            file_type=WAL,
            record_count=records,
            created_at_ms=self.clock.ms,
            min_timestamp_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
            wal=WalLocation(wal_id=wal_id.bytes, path=path, batches=[row]),
        ).SerializeToString()
        record = wal.WalObject(path, self.clock.ms, 6, tuple(stream_ids))
        try:
            await self.store.commit(
                0,
                appends=[Append(stream, records, size_bytes, value) for stream in stream_ids],
                puts=[Put(wal.wal_object(0, wal_id), record.encode())],
                expect=[KeyIs(wal.staging(0, block.block_id), block.version)],
            )
        except ConditionFailed:
            self.block = None
            return None
        return path

    async def delete_before(self, stream_id: int, offset: int) -> None:
        await advance_log_start(self.store, stream_id, offset)

    # What is there

    async def entries(self, stream_id: int) -> list[tuple[int, IndexEntry]]:
        """`(offset_end, entry)` of a stream."""
        start, end = streams.index_prefix(stream_id), streams.index_end(stream_id)
        rows = await self.store.scan(start, end, limit=100_000)
        return [
            (streams.parse_index_entry(row.key)[1], IndexEntry.FromString(row.value))
            for row in rows
        ]

    async def ends(self, stream_id: int) -> list[int]:
        """The ends of the entries that hold data."""
        found = await self.entries(stream_id)
        return [end for end, entry in found if entry.file_type != TOMBSTONE]

    async def log_start(self, stream_id: int) -> int:
        return await read_log_start(self.store, stream_id)

    async def object_paths(self) -> set[str]:
        return {info.path async for info in self.objects.list("")}

    async def keys(self, prefix: str) -> list[str]:
        rows = await self.store.scan(prefix, prefix_end(prefix), limit=100_000)
        return [row.key for row in rows]
