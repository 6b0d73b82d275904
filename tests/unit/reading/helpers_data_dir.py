"""A data directory with topics in it, partly compacted, that no broker has open."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.log_helpers import batch

from towpath import compactor
from towpath.config.settings import Settings
from towpath.lakehouse.runners.execute import execute
from towpath.lakehouse.runners.in_process import InProcessRunner
from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.sqlite.store import SqliteStore
from towpath.objects.open import open_object_store
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic

SEEDS = itertools.count(1_000)
FIRST_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Written:
    """A batch of one or more values for a partition, all of one time."""

    partition: int
    timestamp_ms: int
    values: Sequence[bytes]


class DataDir:
    """Writes it with the parts of a broker and a compactor, without Spark."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = Settings(data_dir=path, compaction_http_port=0)

    def write(self, topic: str, partitions: int, *batches: Written) -> None:
        """Append batches, each alone in its WAL object, to a topic, which is made if missing."""

        async def work() -> None:
            runtime, metrics = inline_runtime(seed=next(SEEDS)), Metrics()
            path = self.settings.metadata_path()
            assert path is not None
            store = await SqliteStore.open(path, runtime)
            objects = open_object_store(self.settings.objects_url, runtime, metrics)
            topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: [1])
            await topics.start()
            log = ObjectLog(store, objects, runtime, ObjectLogSettings(broker_id=1), metrics)
            found = topics.get(topic) or await topics.create(NewTopic(topic, partitions))
            for each in batches:
                data = batch(*each.values, timestamp_ms=each.timestamp_ms)
                await log.append(found.stream(each.partition), data)
            await log.close()
            await topics.close()
            await objects.close()
            await store.close()

        asyncio.run(work())

    def delete(self, topic: str) -> None:
        """Delete a topic."""

        async def work() -> None:
            runtime = inline_runtime(seed=next(SEEDS))
            path = self.settings.metadata_path()
            assert path is not None
            store = await SqliteStore.open(path, runtime)
            topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: [1])
            await topics.start()
            found = topics.get(topic)
            assert found is not None
            await topics.delete(found)
            await topics.close()
            await store.close()

        asyncio.run(work())

    def compact(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Move everything to Parquet files."""

        async def work() -> None:
            running = compactor.Compactor(self.settings)
            await running.start(everything_is_due=True)
            await running.run_once()
            await running.stop()

        with monkeypatch.context() as patch:
            patch.setattr(compactor, "open_runner", lambda _: InProcessRunner(execute))
            asyncio.run(work())

    def wal_objects(self) -> list[Path]:
        """The files of WAL objects."""
        return sorted(self.path.glob("objects/**/*.wo"))
