"""The saga of a task: Parquet written, table committed, index swapped, WAL let go, done.

Each state is recorded before the next step begins, and each step can be repeated, so any process
that holds the stream's lock goes on with a task wherever another one stopped. A process that lost
its lock without noticing is stopped by the record's version, the table's marks or the index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from towpath.lakehouse.plan import Job, JobKind, JobResult, ParquetFile
from towpath.lakehouse.planner import Range
from towpath.lakehouse.publish import Publisher
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.swap import IndexSwap, Swapped
from towpath.lakehouse.tables import Table, TopicRef
from towpath.lakehouse.tasks import Task, TaskLost, TaskStore
from towpath.metadata.keys import compaction
from towpath.metadata.keys.compaction import Cleaned, TaskRecord, TaskState
from towpath.metadata.store import MetadataStore
from towpath.runtime import Runtime
from towpath.typed.columns import TypedColumns

Checkpoint = Callable[[str], None]
"""Called when a task reaches a state, before and after it is recorded: where faults may strike."""

logger = structlog.get_logger(__name__)


class Saga:
    """Takes tasks from one state to the next."""

    def __init__(
        self,
        store: MetadataStore,
        tasks: TaskStore,
        publisher: Publisher,
        swap: IndexSwap,
        runtime: Runtime,
        settings: PipelineSettings,
        checkpoint: Checkpoint,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._publisher = publisher
        self._swap = swap
        self._runtime = runtime
        self._settings = settings
        self._checkpoint = checkpoint

    async def create(self, due: Range) -> Task:
        """Record a new task for the range."""
        now_ms = self._runtime.clock.now_ms()
        messages = [entry.message for entry in due.entries]
        last = due.entries[-1].row
        record = TaskRecord(
            task_id=self._runtime.uuid4().hex,
            state=TaskState.CREATED,
            kind=due.kind.value,
            topic=due.topic.name,
            topic_number=due.topic.number,
            partition=due.partition,
            start=due.start,
            end=due.end,
            last_key=last.key,
            last_version=last.version,
            wal_bytes=due.wal_bytes,
            min_timestamp_ms=min(message.min_timestamp_ms for message in messages),
            max_timestamp_ms=max(message.max_timestamp_ms for message in messages),
            written_at_ms=max(message.created_at_ms for message in messages),
            created_at_ms=now_ms,
            output_dir=output_dir(
                self._settings.cluster_prefix, due.topic.name, due.partition, now_ms
            ),
            removed=tuple(file.to_json() for file in due.files),
        )
        self._checkpoint("compaction-before-created")
        task = await self._tasks.create(record)
        self._checkpoint("compaction-created")
        return task

    def job(self, task: Task, due: Range, table: Table, typed: TypedColumns | None) -> Job:
        """What a worker has to do for the task."""
        record, settings = task.record, self._settings
        return Job(
            task_id=record.task_id,
            kind=due.kind,
            topic=record.topic,
            partition=record.partition,
            start=record.start,
            end=record.end,
            output_dir=record.output_dir,
            objects_url=settings.objects_url,
            field_ids=dict(table.field_ids),
            chunks=due.chunks,
            files=due.files,
            target_file_bytes=settings.target_file_bytes,
            row_group_bytes=settings.row_group_bytes,
            split_by_day=table.split_by_day,
            tombstones_below=due.tombstones_below,
            key_memory_bytes=settings.key_memory_bytes,
            objects_options=dict(settings.objects_options),
            typed=typed,
        )

    async def written(self, task: Task, result: JobResult) -> None:
        """Record the files that a worker wrote."""
        files = tuple(file.to_json() for file in result.files)
        record = replace(task.record, state=TaskState.PARQUET_WRITTEN, files=files)
        self._checkpoint("compaction-before-parquet-written")
        await self._tasks.advance(task, record)
        self._checkpoint("compaction-parquet-written")

    async def commit(self, topic: TopicRef, tasks: Sequence[Task]) -> list[Task]:
        """Commit written tasks of one topic to its table; those that are in it now."""
        self._checkpoint("compaction-before-iceberg-committed")
        published = await self._publisher.publish(topic, tasks)
        self._checkpoint("compaction-iceberg-applied")
        committed = []
        for task in tasks:
            if task.record.task_id in published.taken:
                logger.warning("range was taken by another task", task=describe(task))
                await self._abandon(task)
                continue
            record = replace(
                task.record,
                state=TaskState.ICEBERG_COMMITTED,
                snapshot_id=published.table.snapshot_id,
                sequence_number=published.table.sequence_number,
            )
            try:
                await self._tasks.advance(task, record)
            except TaskLost:
                continue
            committed.append(task)
        self._checkpoint("compaction-iceberg-committed")
        return committed

    async def complete(self, task: Task) -> None:
        """Whatever is left to do for a task that is in the table."""
        if task.record.state is TaskState.ICEBERG_COMMITTED:
            outcome = await self._swap.put(task)
            self._checkpoint("compaction-index-put")
            if outcome is Swapped.LOST:
                await self._give_up(task)
                return
            await self._enter(task, TaskState.INDEX_SWAPPED)
        if task.record.state is TaskState.INDEX_SWAPPED:
            # The new entry's key hides the others already; with them go their chunks' derefs.
            await self._swap.clear(task)
            await self._order_deletion(task)
            if JobKind(task.record.kind) is JobKind.KEY_COMPACT:
                await self._note_cleaned(task)
            await self._enter(task, TaskState.WAL_GC_READY)
        if task.record.state in (TaskState.WAL_GC_READY, TaskState.DONE):
            await self._tasks.finish(task)
            self._checkpoint("compaction-done")

    async def abandon_unwritten(self, task: Task) -> None:
        """A task whose files nobody reported: its range will be planned again."""
        await self._abandon(task)

    async def _give_up(self, task: Task) -> None:
        """Somebody else's entry is in the task's place, although the table says that the range is
        the task's. It must not remove anything: readers need what the index names."""
        await self._tasks.abandon(task)  # Raises TaskLost if another process has finished it.
        logger.error("the index names other files than the table", task=describe(task))

    async def _enter(self, task: Task, state: TaskState) -> None:
        name = state.value.lower().replace("_", "-")
        self._checkpoint(f"compaction-before-{name}")
        await self._tasks.advance(task, replace(task.record, state=state))
        self._checkpoint(f"compaction-{name}")

    async def _abandon(self, task: Task) -> None:
        try:
            await self._tasks.abandon(task)
        except TaskLost:
            return

    async def _note_cleaned(self, task: Task) -> None:
        """Remember how far the stream is compacted. Losing it costs another compaction."""
        key = compaction.cleaned(task.stream_id)
        found = await self._store.get(key)
        before = Cleaned.decode(found.value) if found is not None else Cleaned()
        after = before.extended(task.record.end, task.record.created_at_ms)
        if after != before:
            await self._store.put(key, after.encode())

    async def _order_deletion(self, task: Task) -> None:
        """The replaced files go once their grace is over and no snapshot needs them."""
        record = task.record
        delete_after_ms = self._runtime.clock.now_ms() + self._settings.file_gc_grace_ms
        for fields in record.removed:
            file = ParquetFile.from_json(fields)
            order = compaction.FileGc(
                path=file.path,
                topic=record.topic,
                stream_id=task.stream_id,
                first_offset=file.first_offset,
                sequence_number=record.sequence_number,
                delete_after_ms=delete_after_ms,
            )
            await self._store.put(
                compaction.file_gc(record.topic_number, file.path), order.encode()
            )


def output_dir(cluster_prefix: str, topic: str, partition: int, now_ms: int) -> str:
    """Where a task's files lie (the spec's section 5.1), with `/` at its end."""
    day = _date(now_ms)
    return f"{cluster_prefix}/compaction/v1/topic={topic}/partition={partition}/date={day}/"


def _date(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y/%m/%d")


def describe(task: Task) -> str:
    """The task for a log line."""
    record = task.record
    kind = JobKind(record.kind).value
    return f"{kind} {record.topic}-{record.partition} [{record.start}, {record.end})"
