"""Tasks in the metadata store, each at the version this process last saw or wrote."""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from towpath.metadata.keys import compaction
from towpath.metadata.keys.compaction import TaskRecord, TaskState
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.keys.topics import stream_id
from towpath.metadata.store import (
    ABSENT,
    KeyValue,
    MetadataStore,
    OutcomeUnknown,
    VersionConflict,
    prefix_end,
)

TASKS_PER_STREAM = 100

logger = structlog.get_logger(__name__)


class TaskLost(Exception):
    """Another process went on with the task, or its topic is gone: leave it alone."""


@dataclass(slots=True)
class Task:
    """A task that this process works on."""

    record: TaskRecord
    version: int

    @property
    def stream_id(self) -> int:
        """The stream it belongs to."""
        return stream_id(self.record.topic_number, self.record.partition)

    @property
    def key(self) -> str:
        """The key of its record."""
        return compaction.task(self.stream_id, self.record.task_id)


class TaskStore:
    """Creates, advances and finishes tasks."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def create(self, record: TaskRecord) -> Task:
        """A new task. The mark that finds it after a crash is written first."""
        stream = stream_id(record.topic_number, record.partition)
        await self._store.put(compaction.active(stream), record.task_id.encode())
        key = compaction.task(stream, record.task_id)
        version = await self._store.put(key, record.encode(), expect=ABSENT)
        return Task(record, version)

    async def advance(self, task: Task, record: TaskRecord) -> None:
        """Write the task's next state; raises TaskLost if it is not this process's any more."""
        value = record.encode()
        try:
            task.version = await self._store.put(task.key, value, expect=task.version)
        except VersionConflict as conflict:
            raise TaskLost(task.record.task_id) from conflict
        except OutcomeUnknown:
            found = await self._store.get(task.key)
            if found is None or found.value != value:
                raise
            task.version = found.version
        task.record = record

    async def finish(self, task: Task) -> None:
        """The task is done: once its record has told so, it may go."""
        if task.record.state is not TaskState.DONE:
            await self.advance(task, replace(task.record, state=TaskState.DONE))
        await self._remove(task)

    async def abandon(self, task: Task) -> None:
        """Nothing of the task is visible anywhere: forget it. Its files are orphans."""
        try:
            await self._store.delete(task.key, expect=task.version)
        except VersionConflict as conflict:
            raise TaskLost(task.record.task_id) from conflict
        await self._clear_active(task)

    async def unfinished_streams(self) -> list[int]:
        """The streams that may have an unfinished task."""
        found = await self._store.scan(
            compaction.ACTIVE_PREFIX, prefix_end(compaction.ACTIVE_PREFIX), limit=10_000
        )
        return [compaction.parse_active(row.key) for row in found]

    async def of_stream(self, stream: int) -> list[Task]:
        """The stream's tasks, oldest first. Without any its mark is removed; one that is missing,
        because two processes had tasks at once, is put back."""
        mark = await self._store.get(compaction.active(stream))
        tasks = await self._read(stream)
        if not tasks and mark is not None:
            await self._delete(mark)
        if tasks and mark is None:
            await self._put_back(tasks[0])
        return tasks

    async def files_of(self, stream: int) -> set[str]:
        """Every file that a task of the stream wrote or replaces."""
        return {
            str(file["path"])
            for task in await self._read(stream)
            for file in (*task.record.files, *task.record.removed)
        }

    async def _read(self, stream: int) -> list[Task]:
        prefix = compaction.tasks_prefix(stream)
        rows = await self._store.scan(prefix, prefix_end(prefix), limit=TASKS_PER_STREAM)
        tasks = []
        for row in rows:
            try:
                tasks.append(Task(TaskRecord.decode(row.value), row.version))
            except UnknownValueVersion as error:
                logger.error("cannot read a compaction task", key=row.key, error=str(error))
                raise
        return sorted(tasks, key=lambda task: (task.record.created_at_ms, task.record.task_id))

    async def _remove(self, task: Task) -> None:
        try:
            await self._store.delete(task.key, expect=task.version)
        except VersionConflict:
            return  # Another process has seen that it is done, too.
        await self._clear_active(task)

    async def _clear_active(self, task: Task) -> None:
        """Remove the mark, unless it stands for a later task already."""
        mark = await self._store.get(compaction.active(task.stream_id))
        if mark is not None and mark.value == task.record.task_id.encode():
            await self._delete(mark)

    async def _put_back(self, task: Task) -> None:
        mark = compaction.active(task.stream_id)
        try:
            await self._store.put(mark, task.record.task_id.encode(), expect=ABSENT)
        except VersionConflict:
            return

    async def _delete(self, mark: KeyValue) -> None:
        try:
            await self._store.delete(mark.key, expect=mark.version)
        except VersionConflict:
            return
