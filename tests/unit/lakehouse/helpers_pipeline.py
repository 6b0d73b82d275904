"""Shared by the pipeline tests: a broker's log, a model catalog, compactors that may crash."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from tests.unit.gc.helpers_gc import START_MS, TurnedClock
from tests.unit.lakehouse.model_tables import ModelCatalog, ModelTables, Strike

from towpath.gc.deleted_topics import DeletedTopics
from towpath.gc.settings import GcSettings
from towpath.gc.wal import WalCollector
from towpath.lakehouse.jobs import compact, key_compact, rewrite
from towpath.lakehouse.pipeline import Pipeline, topic_ref
from towpath.lakehouse.plan import Job, JobKind, JobResult
from towpath.lakehouse.rounds import RoundSummary
from towpath.lakehouse.runners.runner import Progress, Runner
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.tables import TopicRef
from towpath.log.object.log import ObjectLog
from towpath.log.object.producer_states import ProducerStates
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.keys import streams
from towpath.metadata.memory import MemoryStore
from towpath.metadata.proto.index_pb2 import PARQUET, WAL, IndexEntry
from towpath.metadata.store import MetadataStore
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import Buffer
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo, parse_header
from towpath.records.build import NewRecord, ProducerFields, build_batch
from towpath.records.walk import Record, iterate
from towpath.runtime import InlineOffload, Runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic, Topic

SETTINGS = PipelineSettings(
    objects_url="memory://",
    cluster_prefix="c",
    wal_max_age_ms=1_000,
    max_files_per_partition=4,
    lock_ttl_ms=10_000,
    file_gc_grace_ms=1_000,
    orphan_ttl_ms=10_000,
)

RUN = {
    JobKind.COMPACT: compact.run,
    JobKind.REWRITE: rewrite.run,
    JobKind.KEY_COMPACT: key_compact.run,
}

Seen = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""What a consumer sees of a record: offset, timestamp, key, value, headers."""


class MemoryWorkerObjects:
    """A worker's way to objects in memory."""

    reads_at_once = 1

    def __init__(self, objects: MemoryObjectStore) -> None:
        self._objects = objects

    def close(self) -> None:
        pass

    def read(self, path: str, offset: int, length: int) -> Buffer:
        data: Buffer = at_once(self._objects.read(path, offset, length))
        return data

    @contextmanager
    def create(self, path: str) -> Iterator[io.BytesIO]:
        sink = _Unclosed()
        yield sink
        at_once(self._objects.put(path, [sink.getvalue()]))


class _Unclosed(io.BytesIO):
    """Writers close their sink before its content is taken."""

    def close(self) -> None:
        pass


def at_once(work: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


class InlineRunner(Runner):
    """Runs jobs at once. `before` may change or fail a job's result."""

    def __init__(self, objects: MemoryObjectStore, chance: Random) -> None:
        self._objects = MemoryWorkerObjects(objects)
        self._chance = chance
        self.jobs: list[Job] = []
        self.before: Callable[[Sequence[Job]], None] = lambda jobs: None
        self.idled = 0

    async def run(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[JobResult]:
        self.jobs += jobs
        self.before(jobs)
        return [self._run(job) for job in jobs]

    def _run(self, job: Job) -> JobResult:
        run = RUN[job.kind]
        return run(job, self._objects, f"{self._chance.getrandbits(32):08x}")

    async def idle(self) -> None:
        self.idled += 1

    async def close(self) -> None:
        pass


class PipelineWorld:
    """Stores and a catalog that brokers and compactors share."""

    def __init__(self, seed: int = 1, **settings: Any) -> None:
        self.clock = TurnedClock()
        self.chance = Random(seed)
        self.runtime = Runtime(self.clock, self.chance, InlineOffload())
        self.store = MemoryStore(self.runtime)
        self.objects = MemoryObjectStore(self.runtime)
        self.catalog = ModelCatalog()
        self.settings = replace(SETTINGS, **settings)
        self.topics: TopicCatalog
        self.log: ObjectLog

    async def start(self) -> None:
        self.topics = await self._topics(self.store)
        self.log = ObjectLog(
            self.store, self.objects, self.runtime, ObjectLogSettings(broker_id=1), Metrics()
        )

    async def _topics(self, store: MetadataStore) -> TopicCatalog:
        topics = TopicCatalog(store, self.runtime, TopicDefaults(), lambda: [1])
        await topics.start()
        return topics

    async def create(self, name: str = "orders", partitions: int = 1) -> Topic:
        return await self.topics.create(NewTopic(name, partitions))

    async def append(self, topic: Topic, partition: int = 0, records: int = 3, **more: Any) -> int:
        """One batch of distinct records, alone in its WAL object; its base offset."""
        found = await self.log.append(topic.stream(partition), self.batch(records, **more))
        return found.base_offset

    def batch(
        self, records: int, *, producer: tuple[int, int, int] | None = None, step_ms: int = 1
    ) -> BatchInfo:
        first_ms = self.clock.ms
        made = [
            NewRecord(
                value=self.chance.randbytes(self.chance.randrange(40)),
                key=None if self.chance.random() < 0.2 else self.chance.randbytes(4),
                timestamp_ms=first_ms + step_ms * at,
                headers=tuple(
                    ("h", self.chance.choice((None, b"", b"x")))
                    for _ in range(self.chance.randrange(3))
                ),
            )
            for at in range(records)
        ]
        fields = producer if producer is not None else (-1, -1, -1)
        data = build_batch(made, producer=ProducerFields(*fields))
        times = [record.timestamp_ms for record in made]
        return BatchInfo(data, records, min(times), max(times), *fields)

    async def compactor(
        self, strike: Strike = lambda step: None, checkpoint: Strike = lambda step: None
    ) -> tuple[Pipeline, InlineRunner]:
        """A compactor process on the shared stores, and its runner."""
        store = MemoryStore(self.runtime, state=self.store.state)
        runner = InlineRunner(self.objects, self.chance)
        pipeline = Pipeline(
            store,
            await self._topics(store),
            ModelTables(self.catalog, strike),
            runner,
            ProducerStates(store, self.runtime, 86_400_000).save,
            lambda path: f"memory://{path}",
            self.runtime,
            self.settings,
            checkpoint,
        )
        return pipeline, runner

    async def topic_ref(self, name: str) -> TopicRef:
        topic = self.topics.get(name)
        assert topic is not None
        return topic_ref(topic)

    async def compact(self) -> RoundSummary:
        """Everything that is there, by one new compactor."""
        self.clock.ms += self.settings.wal_max_age_ms
        pipeline, _ = await self.compactor()
        summary = await pipeline.run_round()
        await pipeline.close()
        return summary

    # What is there

    async def read_all(self, stream: int) -> list[Seen]:
        """What a consumer reads from the log start to the end, fetch by fetch."""
        (bounds,) = await self.log.bounds((stream,))
        seen: list[Seen] = []
        offset = bounds.start
        while offset < bounds.end:
            result = await self.log.read(stream, offset, 200, min_one=True)
            data = b"".join(bytes(part) for part in result.buffers)
            assert data, f"no progress at {offset}"
            at = 0
            while at < len(data):
                header = parse_header(data, at)
                whole = data[at : at + header.size_bytes]
                seen += [
                    record_seen(header.base_offset, found)
                    for found in iterate(whole)
                    if header.base_offset + found.offset_delta >= offset
                ]
                at += header.size_bytes
                offset = header.base_offset + header.last_offset_delta + 1
        return seen

    async def entries(self, stream: int) -> list[IndexEntry]:
        start, end = streams.index_prefix(stream), streams.index_end(stream)
        return [
            IndexEntry.FromString(row.value)
            for row in await self.store.scan(start, end, limit=100_000)
        ]

    async def file_types(self, stream: int) -> list[str]:
        names = {WAL: "wal", PARQUET: "parquet"}
        return [names.get(entry.file_type, "?") for entry in await self.entries(stream)]

    def table_offsets(self, name: str, partition: int = 0) -> list[int]:
        """Every offset that the table holds, read from its files."""
        import pyarrow.parquet as pq

        table = self.catalog.tables.get(name)
        offsets: list[int] = []
        for path, (where, _) in (table.files if table is not None else {}).items():
            if where == partition:
                content = at_once(self.objects.stat(path)).size_bytes
                data = bytes(at_once(self.objects.read(path, 0, content)))
                offsets += pq.read_table(io.BytesIO(data))["offset"].to_pylist()
        return sorted(offsets)

    async def collect_wal(self) -> None:
        """Let the WAL collector delete what is due."""
        settings = GcSettings(wal_gc_grace_ms=1_000, wal_orphan_ttl_ms=10_000)
        for _ in range(2):
            await WalCollector(
                self.store, self.objects, self.runtime, settings, Metrics()
            ).run_once()
            self.clock.ms += 2_000
        await DeletedTopics(self.store, self.runtime, settings).run_once()

    async def wal_paths(self) -> list[str]:
        return [info.path async for info in self.objects.list("") if info.path.endswith(".wo")]


def record_seen(base_offset: int, found: Record) -> Seen:
    return (
        base_offset + found.offset_delta,
        found.timestamp_ms,
        found.key,
        found.value,
        found.headers,
    )


__all__ = ["SETTINGS", "START_MS", "InlineRunner", "PipelineWorld", "Seen"]
