"""Files that nothing names: left by lost attempts, abandoned tasks, crashes and deleted topics.

Every data file lies under its topic's directory. One that is old enough, and that neither an index
entry, a task, an order to delete it, nor any snapshot of any table of that name knows, is deleted.
The listing comes first: a file that is named after it was listed was written after it, too, and so
is too young.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import structlog

from towpath.gc.entries import decode_row
from towpath.gc.paging import scan_pages
from towpath.gc.summary import Summary
from towpath.lakehouse.pipeline import topic_ref
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.tables import Tables
from towpath.lakehouse.tasks import TaskStore
from towpath.metadata.keys import compaction, streams
from towpath.metadata.keys.compaction import FileGc
from towpath.metadata.store import MetadataStore, prefix_end
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime
from towpath.topics.interface import Topics

FILES_PER_ROUND = 100_000
"""Old files of one topic that are looked at in a round."""
_TOPIC = re.compile(r"topic=([^/]+)/")

logger = structlog.get_logger(__name__)


class OrphanFiles:
    """Deletes data files that belong to nobody."""

    def __init__(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        topics: Topics,
        tables: Tables,
        runtime: Runtime,
        settings: PipelineSettings,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._objects = objects
        self._topics = topics
        self._tables = tables
        self._tasks = TaskStore(store)
        self._clock = runtime.clock
        self._settings = settings
        self._metrics = metrics

    async def run_once(self) -> Summary:
        """One pass over all data files."""
        examined = removed = 0
        async for topic, old in self._old_files():
            examined += len(old)
            needed = await self._needed(topic)
            for path in old - needed:
                await self._objects.delete(path)
                self._metrics.gc_deleted_objects.labels("parquet-orphans").inc()
                removed += 1
        removed += await self._sweep_metadata()
        return Summary(examined, removed)

    async def _sweep_metadata(self) -> int:
        """Delete metadata files that crashes and lost answers left beside the tables'."""
        removed = 0
        await self._topics.refresh()
        for topic in list(self._topics.all()):
            table = await self._tables.load(topic_ref(topic))
            if table is not None:
                removed += await self._tables.sweep_metadata(
                    table, self._objects.list, self._objects.delete
                )
        return removed

    async def _old_files(self) -> AsyncIterator[tuple[str, set[str]]]:
        """The files of each topic that are older than the time given to orphans."""
        prefix = f"{self._settings.cluster_prefix}/compaction/v1/"
        oldest_ms = self._clock.now_ms() - self._settings.orphan_ttl_ms
        topic: str | None = None
        old: set[str] = set()
        # The listing is in the order of paths, so the files of a topic come together.
        async for info in self._objects.list(prefix):
            found = _TOPIC.match(info.path, len(prefix))
            if found is None or info.modified_at_ms > oldest_ms:
                continue
            if found[1] != topic:
                if topic is not None and old:
                    yield topic, old
                topic, old = found[1], set()
            if len(old) < FILES_PER_ROUND:
                old.add(info.path)
        if topic is not None and old:
            yield topic, old

    async def _needed(self, name: str) -> set[str]:
        """Every file of the topic's directory that something names."""
        needed = set(await self._tables.every_file(name))
        needed |= await self._ordered(name)
        await self._topics.refresh()
        topic = self._topics.get(name)
        if topic is not None:
            for partition in range(topic.partitions):
                needed |= await self._indexed(topic.stream(partition))
                needed |= await self._in_tasks(topic.stream(partition))
        return needed

    async def _indexed(self, stream: int) -> set[str]:
        start, end = streams.index_prefix(stream), streams.index_end(stream)
        return {
            file.path
            async for page in scan_pages(self._store, start, end)
            for row in page
            for file in decode_row(row).message.parquet
        }

    async def _in_tasks(self, stream: int) -> set[str]:
        return {
            str(file["path"])
            for task in await self._tasks.of_stream(stream)
            for file in (*task.record.files, *task.record.removed)
        }

    async def _ordered(self, name: str) -> set[str]:
        """Files whose deletion is ordered; it is not this collector's to be faster."""
        prefix = compaction.FILES_GC_PREFIX
        return {
            order.path
            async for page in scan_pages(self._store, prefix, prefix_end(prefix))
            for row in page
            if (order := FileGc.decode(row.value)).topic == name
        }
