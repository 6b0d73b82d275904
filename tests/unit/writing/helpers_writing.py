"""Shared by the tests of writing without a broker: a small system, rows, and what they became."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.unit.gc.helpers_gc import START_MS, TurnedClock

from towpath.gc.orphans import OrphanCollector
from towpath.gc.settings import GcSettings
from towpath.gc.summary import Summary
from towpath.log.object.entries import Entry, decode
from towpath.metadata.keys import streams, topics, wal
from towpath.metadata.memory import MemoryStore
from towpath.metadata.store import MetadataStore
from towpath.objects.fs import FsObjectStore
from towpath.objects.worker import FileObjects
from towpath.observe.metrics import Metrics
from towpath.records import compression
from towpath.records.walk import Record, iterate
from towpath.runtime import InlineOffload, Runtime
from towpath.writing.block import BlockPlace, SharedBlock, current_block
from towpath.writing.staged import Staged
from towpath.writing.stager import Stager
from towpath.writing.target import Target

TOPIC = "orders"
NUMBER = 1
TTL_MS = 86_400_000
GRACE_MS = 1_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="Europe/Paris")),
    ]
)


@dataclass(frozen=True)
class Row:
    """A row as a writer has it; None is null."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows with every column."""
    columns: list[Any] = [
        pa.array([row.key for row in rows], pa.binary()),
        pa.array([row.value for row in rows], pa.binary()),
        pa.array(
            [
                None if row.headers is None else [{"key": k, "value": v} for k, v in row.headers]
                for row in rows
            ],
            HEADERS,
        ),
        pa.array([row.partition for row in rows], pa.int32()),
        pa.array(
            [None if row.timestamp_ms is None else row.timestamp_ms * 1000 for row in rows],
            pa.int64(),
        ).view(pa.timestamp("us", tz="Europe/Paris")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@dataclass
class World:
    """One system without a broker: metadata in memory, objects in files, a clock to turn."""

    directory: Path
    partitions: int = 3
    clock: TurnedClock = field(default_factory=TurnedClock)

    def __post_init__(self) -> None:
        self.runtime = Runtime(self.clock, random.Random(1), InlineOffload())
        self.store: MetadataStore = MemoryStore(self.runtime)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.objects = FileObjects(self.directory)

    async def create_topic(self, number: int = NUMBER) -> None:
        """The topic, as the catalog stores it."""
        record = topics.TopicRecord(uuid.uuid4(), number, self.partitions)
        await self.store.put(topics.topic(TOPIC), record.encode())

    async def target(self, **changes: Any) -> Target:
        """What workers get now."""
        place = BlockPlace(0, "towpath", "default", TTL_MS)
        block = await current_block(self.store, place, self.runtime)
        return replace(make_target(self.directory, self.partitions), block=block, **changes)

    async def stage(self, *tasks: Sequence[Row], **changes: Any) -> list[Staged]:
        """What tasks with these rows stage."""
        target = await self.target(**changes)
        return [self.stage_one(target, rows) for rows in tasks]

    def stage_one(self, target: Target, rows: Sequence[Row], **options: Any) -> Staged:
        """What one task stages."""
        stager = Stager(target, self.objects, self.runtime, **options)
        stager.add(batch_of(rows))
        return stager.finish()

    async def entries(self, partition: int) -> list[Entry]:
        """The index of a partition."""
        stream = topics.stream_id(NUMBER, partition)
        found = await self.store.scan(streams.index_prefix(stream), streams.index_end(stream))
        return [decode(row) for row in found]

    async def records(self, partition: int) -> list[tuple[int, Record]]:
        """Offsets and records of a partition, read by the index as a broker does."""
        found = []
        for entry in await self.entries(partition):
            for row in entry.rows:
                data = self.objects.read(entry.path, row.position, row.length)
                batch = list(iterate(data))
                assert len(batch) == row.last_offset - row.base_offset + 1
                assert max(record.timestamp_ms for record in batch) == row.max_timestamp_ms
                found += [(row.base_offset + record.offset_delta, record) for record in batch]
        assert [offset for offset, _ in found] == list(range(len(found)))
        return found

    async def values(self) -> list[list[bytes | None]]:
        """The values of each partition, in order."""
        return [
            [record.value for _, record in await self.records(partition)]
            for partition in range(self.partitions)
        ]

    async def collect_orphans(self) -> Summary:
        """One round of the collector of every broker."""
        objects = FsObjectStore(self.directory, self.runtime)
        try:
            settings = GcSettings(wal_gc_grace_ms=GRACE_MS, wal_orphan_ttl_ms=TTL_MS)
            collector = OrphanCollector(self.store, objects, self.runtime, settings, Metrics())
            return await collector.run_once()
        finally:
            await objects.close()

    def paths(self) -> set[str]:
        """The objects that lie there."""
        found = self.directory.rglob("*.wo")
        return {str(path.relative_to(self.directory)) for path in found}


def paths_of(staged: Iterable[Staged]) -> set[str]:
    """The objects of tasks."""
    return {each.path for part in staged for each in part.objects}


def make_target(directory: Path, partitions: int = 3, **changes: Any) -> Target:
    """A topic with plain settings and a block that nobody reserved."""
    block = SharedBlock(wal.new_block(7 << 64), "/none", 1, "towpath/wal/v1/")
    target = Target(
        topic=TOPIC,
        topic_number=NUMBER,
        partitions=partitions,
        max_message_bytes=1_048_588,
        decompressed_max_bytes=1 << 27,
        require_keys=False,
        log_append_time=False,
        timestamp_before_max_ms=START_MS,
        timestamp_after_max_ms=3_600_000,
        codec=compression.LZ4,
        domain=0,
        block=block,
        objects_url=str(directory),
        objects_options={},
    )
    return replace(target, **changes)
