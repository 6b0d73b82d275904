"""A log on files whose objects are replaced and deleted whenever a test says so, by the pipeline
and the collectors that the product runs; only the jobs run here instead of on Spark."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from towpath.cluster import identity
from towpath.compactor import pipeline_settings_of
from towpath.config.settings import Settings
from towpath.gc.settings import GcSettings
from towpath.gc.wal import WalCollector
from towpath.lakehouse.file_gc import FileCollector
from towpath.lakehouse.iceberg.locations import Locations, root_uri
from towpath.lakehouse.iceberg.open import open_tables
from towpath.lakehouse.pipeline import Pipeline
from towpath.lakehouse.runners.execute import execute, open_objects
from towpath.lakehouse.runners.in_process import InProcessRunner
from towpath.lakehouse.tables import Tables
from towpath.lakehouse.upkeep import TableUpkeep
from towpath.log.object.log import ObjectLog
from towpath.log.object.producer_states import ProducerStates
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.sqlite.store import SqliteStore
from towpath.objects.open import open_object_store
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo
from towpath.records.build import NewRecord, build_batch
from towpath.runtime import InlineOffload, Runtime, SystemClock
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic, Topic

TIMEOUT_S = 120.0
START_MS = 1_790_000_000_000
DAY_MS = 86_400_000
T = TypeVar("T")


def impatient(data_dir: Path, **more: Any) -> Settings:
    """The settings with which nothing that was replaced is kept for anybody."""
    return Settings.model_validate(
        {
            "data_dir": data_dir,
            "compaction_parquet_max_files_per_partition": 2,
            "parquet_gc_grace_ms": 0,
            "table_iceberg_snapshot_max_age_ms": 0,
            "table_iceberg_min_snapshots": 1,
            "table_iceberg_max_snapshots": 1,
            **more,
        }
    )


class RewrittenTopic:
    """One topic of one partition. Its event loop has a thread of its own, so that a test can have
    something replaced in the middle of a query."""

    def __init__(self, settings: Settings, name: str = "orders") -> None:
        self._settings = settings
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rewriting")
        self.count = 0
        """Records that were acknowledged; their offsets begin at 0."""
        # Set by `_open`.
        self._store: SqliteStore
        self._objects: ObjectStore
        self._topics: TopicCatalog
        self._topic: Topic
        self._tables: Tables
        self._log: ObjectLog
        self._pipeline: Pipeline
        self._collectors: list[Any]

    def __enter__(self) -> RewrittenTopic:
        self._thread.start()
        self._call(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def append(self, records: int = 3, size_bytes: int = 10, days: int = 1) -> None:
        """One batch, alone in its WAL object, with records of so many days."""
        self._call(self._append(_batch(self.count, records, size_bytes, days)))
        self.count += records

    def compact(self) -> None:
        """Put everything into Parquet files, merge them if they are enough, and delete at once what
        was replaced."""
        self._call(self._compact())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    async def _open(self) -> None:
        settings, metrics = self._settings, Metrics()
        runtime = Runtime(SystemClock(), random.Random(7), InlineOffload())
        path = settings.metadata_path()
        assert path is not None
        self._store = store = await SqliteStore.open(path, runtime)
        info = await identity.load_or_create(store, runtime)
        self._objects = objects = open_object_store(settings.objects_url, runtime, metrics)
        self._topics = topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: [1])
        await topics.start()
        self._topic = await topics.create(NewTopic(self._name, 1))
        self._log = ObjectLog(store, objects, runtime, ObjectLogSettings(broker_id=1), metrics)
        self._tables = tables = open_tables(settings, info.cluster_id, runtime)
        pipeline_settings = replace(pipeline_settings_of(settings), wal_max_age_ms=0)
        locations = Locations(root_uri(settings.objects_url), settings.cluster_prefix)
        self._pipeline = pipeline = Pipeline(
            store,
            topics,
            tables,
            InProcessRunner(execute),
            ProducerStates(store, runtime, 86_400_000).save,
            locations.uri,
            runtime,
            pipeline_settings,
            lambda step: None,
        )
        gc_settings = GcSettings(wal_gc_grace_ms=0)
        self._collectors = [
            TableUpkeep(store, topics, tables, pipeline.publisher, runtime, pipeline_settings),
            FileCollector(store, objects, tables, runtime, metrics),
            WalCollector(store, objects, runtime, gc_settings, metrics),
            WalCollector(store, objects, runtime, gc_settings, metrics),
        ]

    async def _append(self, batch: BatchInfo) -> None:
        await self._log.append(self._topic.stream(0), batch)

    async def _compact(self) -> None:
        for _ in range(2):
            summary = await self._pipeline.run_round()
            assert not summary.failures
            self._pipeline.look_for_small_files(self._topic.stream(0))
        for collector in self._collectors:
            await collector.run_once()

    async def _close(self) -> None:
        await self._pipeline.close()
        await self._tables.close()
        await self._log.close()
        await self._topics.close()
        await self._objects.close()
        await self._store.close()
        open_objects.cache_clear()


def _batch(first: int, records: int, size_bytes: int, days: int) -> BatchInfo:
    chance = random.Random(first)
    made = [
        NewRecord(
            value=b"%d " % number + chance.randbytes(size_bytes),
            key=b"k",
            timestamp_ms=START_MS + number % days * DAY_MS + number,
            headers=(),
        )
        for number in range(first, first + records)
    ]
    times = [record.timestamp_ms for record in made]
    return BatchInfo(build_batch(made), records, min(times), max(times), -1, -1, -1)
