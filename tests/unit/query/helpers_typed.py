"""A data directory with topics and their real Iceberg tables; jobs run in the calling thread."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyiceberg.table import Table as IcebergTable

from towpath.compactor import pipeline_settings_of
from towpath.config.settings import Settings
from towpath.lakehouse.iceberg.locations import Locations, root_uri
from towpath.lakehouse.iceberg.open import open_tables
from towpath.lakehouse.pipeline import Pipeline, topic_ref
from towpath.lakehouse.runners.execute import execute, open_objects
from towpath.lakehouse.runners.in_process import InProcessRunner
from towpath.lakehouse.tables import Tables
from towpath.log.object.log import ObjectLog
from towpath.log.object.producer_states import ProducerStates
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.sqlite.store import SqliteStore
from towpath.objects.open import open_object_store
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo
from towpath.records.build import NewRecord, build_batch
from towpath.runtime import inline_runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic, Topic
from towpath.typed.declaration import FORMAT, SCHEMA

T = TypeVar("T")
SEEDS = itertools.count(1_000)


@dataclass
class Opened:
    """What one visit of the data directory has open."""

    topics: TopicCatalog
    log: ObjectLog
    pipeline: Pipeline
    tables: Tables


class TypedLake:
    """Topics of one partition in a data directory. Nothing is open between two calls."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def append(self, name: str, *values: Any) -> None:
        """One batch; what is not bytes or None becomes JSON."""
        raw = [one if isinstance(one, bytes | None) else json.dumps(one).encode() for one in values]
        data = build_batch([NewRecord(value, b"key", 1_790_000_000_000) for value in raw])
        times = (1_790_000_000_000, 1_790_000_000_000)
        self.append_batch(name, BatchInfo(data, len(raw), *times, -1, -1, -1))

    def append_batch(self, name: str, batch: BatchInfo, partition: int = 0) -> None:
        """A batch as it is; a topic that is missing gets two partitions if the second is meant."""

        async def work(opened: Opened) -> None:
            topic = opened.topics.get(name)
            if topic is None:
                topic = await opened.topics.create(NewTopic(name, partition + 1))
            await opened.log.append(topic.stream(partition), batch)

        self._visit(work)

    def delete_before(self, name: str, offset: int) -> None:
        """Let the first partition begin at an offset."""

        async def work(opened: Opened) -> None:
            topic = opened.topics.get(name)
            assert topic is not None
            await opened.log.delete_before(topic.stream(0), offset)

        self._visit(work)

    def declare(self, name: str, format_name: str | None, schema: object = None) -> None:
        """Change the declaration of a topic, which is made if it is missing."""
        text = schema if isinstance(schema, str | None) else json.dumps(schema)

        async def work(opened: Opened) -> None:
            if opened.topics.get(name) is None:
                await opened.topics.create(NewTopic(name, 1))
            change = {FORMAT: format_name, SCHEMA: text}
            await opened.topics.alter(name, change, replace=False)

        self._visit(work)

    def compact(self, rounds: int = 10) -> None:
        """Rounds, at most so many, until nothing is left to do."""

        async def work(opened: Opened) -> None:
            for _ in range(rounds):
                summary = await opened.pipeline.run_round()
                assert summary.failures == []
                if not summary.tasks:
                    return

        self._visit(work)

    def table(self, name: str) -> IcebergTable:
        """The topic's table as pyiceberg has it."""

        async def work(opened: Opened) -> IcebergTable:
            topic: Topic | None = opened.topics.get(name)
            assert topic is not None
            loaded = await opened.tables.load(topic_ref(topic))
            assert loaded is not None
            assert isinstance(loaded.handle, IcebergTable)
            return loaded.handle

        return self._visit(work)

    def _visit(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        async def visit() -> T:
            settings, metrics = self.settings, Metrics()
            runtime = inline_runtime(seed=next(SEEDS))
            path = settings.metadata_path()
            assert path is not None
            store = await SqliteStore.open(path, runtime)
            objects = open_object_store(settings.objects_url, runtime, metrics)
            topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: [1])
            await topics.start()
            log = ObjectLog(store, objects, runtime, ObjectLogSettings(broker_id=1), metrics)
            tables = open_tables(settings, "cluster", runtime)
            root = root_uri(settings.objects_url, settings.objects_options)
            pipeline = Pipeline(
                store,
                topics,
                tables,
                InProcessRunner(execute),
                ProducerStates(store, runtime, 86_400_000).save,
                Locations(root, settings.cluster_prefix).uri,
                runtime,
                replace(pipeline_settings_of(settings), wal_max_age_ms=0),
                lambda step: None,
            )
            try:
                return await work(Opened(topics, log, pipeline, tables))
            finally:
                await pipeline.close()
                await tables.close()
                await log.close()
                await topics.close()
                await objects.close()
                await store.close()
                open_objects.cache_clear()

        return asyncio.run(visit())
