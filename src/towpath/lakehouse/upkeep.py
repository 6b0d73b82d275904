"""Upkeep of tables: records that left the log leave the table, and old snapshots expire.

Retention moves a partition's log start and drops its index entries; this takes the files that only
held such records out of the table, in a commit fenced like any other, and orders their deletion.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from towpath.gc.entries import decode_row, read_log_start
from towpath.gc.summary import Summary
from towpath.lakehouse.pipeline import topic_ref
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.planner import start_of
from towpath.lakehouse.publish import Publisher
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.tables import (
    Change,
    CommitConflict,
    CommitUnknown,
    Table,
    TableError,
    Tables,
)
from towpath.lakehouse.tasks import TaskStore
from towpath.metadata.keys import compaction, streams
from towpath.metadata.proto.index_pb2 import TOMBSTONE
from towpath.metadata.store import MetadataStore
from towpath.runtime import Runtime
from towpath.topics.interface import Topic, Topics

logger = structlog.get_logger(__name__)


class TableUpkeep:
    """Tends every topic's table, one after the other."""

    def __init__(
        self,
        store: MetadataStore,
        topics: Topics,
        tables: Tables,
        publisher: Publisher,
        runtime: Runtime,
        settings: PipelineSettings,
    ) -> None:
        self._store = store
        self._topics = topics
        self._tables = tables
        self._publisher = publisher
        self._clock = runtime.clock
        self._settings = settings
        self._tasks = TaskStore(store)
        self._looked: dict[int, tuple[int | None, dict[int, int]]] = {}
        """The snapshot and the log starts at which each table was last without files to take out.
        A later snapshot may have brought files of a range that was removed meanwhile."""

    async def run_once(self) -> Summary:
        """Tend all tables; one that fails does not stop the others."""
        await self._topics.refresh()
        examined = removed = 0
        failure: TableError | None = None
        for topic in list(self._topics.all()):
            try:
                table = await self._tables.load(topic_ref(topic))
                if table is None:
                    continue
                examined += 1
                removed += await self._tend(topic, table)
            except TableError as error:
                failure = error
        if failure is not None:
            raise failure
        return Summary(examined, removed)

    async def _tend(self, topic: Topic, table: Table) -> int:
        removed = 0
        if self._settings.retention_in_tables and topic.settings.delete:
            table, removed = await self._expire_files(topic, table)
        # Snapshots grow old without any commit.
        maintained = await self._tables.maintain(table)
        table = maintained.table
        if maintained.expired_snapshots:
            logger.info(
                "expired snapshots",
                topic=topic.name,
                snapshots=maintained.expired_snapshots,
                metadata_files=maintained.deleted_metadata_files,
            )
        self._publisher.remember(table)
        return removed

    async def _expire_files(self, topic: Topic, table: Table) -> tuple[Table, int]:
        starts = await self._log_starts(topic)
        if not starts or self._looked.get(topic.number) == (table.snapshot_id, starts):
            return table, 0
        below = await self._tables.files_below(table, starts)
        # What a task will still bring into the index; the index itself is asked afterwards.
        touched = {number for number, _ in below}
        coming = {number: await self._tasks.files_of(topic.stream(number)) for number in touched}
        doomed = [
            (number, file)
            for number, file in below
            if file.path not in coming[number] and await self._let_go(topic, number, file)
        ]
        if doomed:
            try:
                table = await self._tables.commit(table, Change(marks={}, removed=doomed))
            except (CommitConflict, CommitUnknown) as error:
                logger.info("table changed, expiring later", topic=topic.name, error=str(error))
                return table, 0
            await self._order_deletion(topic, table, doomed)
        if len(doomed) == len(below):
            self._looked[topic.number] = (table.snapshot_id, starts)
        return table, len(doomed)

    async def _log_starts(self, topic: Topic) -> dict[int, int]:
        """The log starts of the partitions that had records removed."""
        starts = {}
        for partition in range(topic.partitions):
            start = await read_log_start(self._store, topic.stream(partition))
            if start > 0:
                starts[partition] = start
        return starts

    async def _let_go(self, topic: Topic, partition: int, file: ParquetFile) -> bool:
        """Whether no entry holds the file's offsets any more: retention drops entries after the
        start moved."""
        stream = topic.stream(partition)
        row = await self._store.first_above(
            streams.first_entry_above(stream, file.first_offset), streams.index_end(stream)
        )
        if row is None:
            return True
        found = decode_row(row)
        return found.message.file_type == TOMBSTONE or start_of(found) > file.last_offset

    async def _order_deletion(
        self, topic: Topic, table: Table, files: Sequence[tuple[int, ParquetFile]]
    ) -> None:
        delete_after_ms = self._clock.now_ms() + self._settings.file_gc_grace_ms
        for partition, file in files:
            order = compaction.FileGc(
                path=file.path,
                topic=topic.name,
                stream_id=topic.stream(partition),
                first_offset=file.first_offset,
                sequence_number=table.sequence_number,
                delete_after_ms=delete_after_ms,
            )
            await self._store.put(compaction.file_gc(topic.number, file.path), order.encode())
