"""Rounds of the pipeline: take streams that are due, run their jobs, publish, swap, go on.

Several processes share the work: each stream is worked on under an ephemeral lock, and a round
takes what it can lock. Unfinished tasks of processes that died come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from towpath.cluster.leases import Leases
from towpath.gc.entries import SaveProducers
from towpath.lakehouse.backfill import Backfills
from towpath.lakehouse.job_runs import JobRuns
from towpath.lakehouse.pauses import Pauses
from towpath.lakehouse.plan import Job, JobKind, JobResult
from towpath.lakehouse.planner import Planner, Range
from towpath.lakehouse.publish import Publisher, TooManyConflicts
from towpath.lakehouse.rounds import RoundSummary, RoundWatcher
from towpath.lakehouse.runners.runner import Runner, RunnerUnavailable
from towpath.lakehouse.saga import Checkpoint, Saga, describe
from towpath.lakehouse.settings import PipelineSettings
from towpath.lakehouse.swap import FileName, IndexSwap
from towpath.lakehouse.tables import TableError, Tables, TopicRef
from towpath.lakehouse.tasks import Task, TaskLost, TaskStore
from towpath.lakehouse.value_columns import ColumnsContended, ValueColumns
from towpath.metadata.keys import compaction
from towpath.metadata.keys.compaction import TaskState
from towpath.metadata.keys.topics import split_stream_id
from towpath.metadata.store import MetadataError, MetadataStore
from towpath.runtime import Runtime
from towpath.topics.interface import Topic, Topics
from towpath.typed.declaration import declared

TABLE_LOCK_ATTEMPTS = 20
TABLE_LOCK_PAUSE_MS = 100

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Work:
    """A task of this round and what it still needs."""

    task: Task
    due: Range | None = None
    """Set for a task that has to be run."""


class Pipeline:
    """One process's share of the pipeline."""

    def __init__(
        self,
        store: MetadataStore,
        topics: Topics,
        tables: Tables,
        runner: Runner,
        save_producers: SaveProducers,
        file_name: FileName,
        runtime: Runtime,
        settings: PipelineSettings,
        checkpoint: Checkpoint,
    ) -> None:
        self._topics = topics
        self._runtime = runtime
        self._settings = settings
        self._leases = Leases(store, runtime, settings.lock_ttl_ms)
        self._tasks = TaskStore(store)
        self._planner = Planner(store, runtime, settings)
        self.publisher = Publisher(store, tables)
        swap = IndexSwap(store, save_producers, file_name)
        self._saga = Saga(store, self._tasks, self.publisher, swap, runtime, settings, checkpoint)
        self._columns = ValueColumns(store, self.publisher)
        self._runs = JobRuns(runner, self._columns)
        self._backfills = Backfills(self._planner, runtime, settings)
        self._new_files: dict[int, int] = {}
        """How many files each stream got since its small ones were last looked at."""
        self._pauses = Pauses(runtime)
        self._cleaned_at_ms: dict[int, int] = {}
        """When the keys of each stream of a compacted topic were last looked at."""

    async def close(self) -> None:
        """Give the locks back; the runner is its owner's to close."""
        await self._leases.close()

    @property
    def backlog_bytes(self) -> int:
        """WAL bytes that were not in tables when the last round began."""
        return self._planner.backlog_bytes

    def look_for_small_files(self, stream: int) -> None:
        """Look at the stream's small files in the next round."""
        self._new_files[stream] = self._settings.max_files_per_partition

    async def run_round(self, progress: RoundWatcher | None = None) -> RoundSummary:
        """One round: bounded work, each part of it finished or left for the next round."""
        summary = RoundSummary()
        await self._topics.refresh()
        topics = {topic.number: topic for topic in self._topics.all()}
        locked: list[int] = []
        try:
            work = await self._resume(topics, locked)
            work += await self._plan(
                topics, locked, summary, {item.task.stream_id for item in work}
            )
            if work:
                await self._carry_out(work, summary, progress)
        finally:
            await self._unlock(locked)
        return summary

    # What to do

    async def _resume(self, topics: dict[int, Topic], locked: list[int]) -> list[_Work]:
        """Unfinished tasks of streams that nobody works on."""
        work: list[_Work] = []
        for stream in await self._tasks.unfinished_streams():
            if self._pauses.paused(split_stream_id(stream)[0]):
                continue
            if len(locked) >= self._settings.round_max_tasks or not await self._lock(stream):
                continue
            locked.append(stream)
            if split_stream_id(stream)[0] not in topics:
                # Its tasks are swept with the deleted topic, and then its mark goes, too.
                await self._tasks.of_stream(stream)
                continue
            work += [_Work(task) for task in await self._unfinished(stream)]
        return work

    async def _unfinished(self, stream: int) -> list[Task]:
        """The stream's tasks that can go on; those that were never written are forgotten."""
        tasks = []
        for task in await self._tasks.of_stream(stream):
            if task.record.state is TaskState.CREATED:
                logger.info("planning again what was not written", task=describe(task))
                await self._saga.abandon_unwritten(task)
            else:
                tasks.append(task)
        return tasks

    async def _plan(
        self,
        topics: dict[int, Topic],
        locked: list[int],
        summary: RoundSummary,
        busy: set[int],
    ) -> list[_Work]:
        """New tasks for due ranges, as many as the round may take."""
        work: list[_Work] = []
        left_bytes = self._settings.round_max_bytes
        due = await self._planner.due_streams(list(topics.values()))
        for topic, partition in self._in_own_order(due):
            stream = topic.stream(partition)
            if stream in busy:
                summary.more = True
                continue
            if left_bytes <= 0 or len(work) >= self._settings.round_max_tasks:
                summary.more = True
                break
            if self._pauses.paused(topic.number):
                continue
            found = await self._claim(topic, partition, locked, summary)
            if found is not None:
                work.append(found)
                assert found.due is not None
                left_bytes -= found.due.wal_bytes
                summary.more |= found.due.is_cut
                busy.add(stream)
        work += await self._plan_backfills(topics, locked, busy, len(work), summary)
        work += await self._plan_rewrites(topics, locked, busy, len(work))
        work += await self._plan_key_compactions(topics, locked, busy, len(work))
        return work

    async def _claim(
        self, topic: Topic, partition: int, locked: list[int], summary: RoundSummary
    ) -> _Work | None:
        stream = topic.stream(partition)
        if not await self._has_table(topic, summary):
            return None
        if stream not in locked:
            if not await self._lock(stream):
                return None
            locked.append(stream)
        # Nobody else creates tasks now, but somebody who died may have left one.
        if await self._unfinished(stream):
            return None
        due = await self._planner.wal_range(topic, partition)
        return None if due is None else _Work(await self._saga.create(due), due)

    async def _has_table(self, topic: Topic, summary: RoundSummary) -> bool:
        """Whether the topic's table can be had; planning waits while it cannot."""
        try:
            await self.publisher.table(topic_ref(topic))
        except TableError as error:
            self._failed(topic.name, topic.number, error, summary)
            return False
        return True

    def _failed(self, topic: str, number: int, error: Exception, summary: RoundSummary) -> None:
        """A topic's table is out of reach: its tasks wait, longer each time."""
        summary.failures.append(f"{topic}: {error}")
        self._pauses.failed(number)

    async def _plan_backfills(
        self,
        topics: dict[int, Topic],
        locked: list[int],
        busy: set[int],
        taken: int,
        summary: RoundSummary,
    ) -> list[_Work]:
        """Tasks that rewrite files whose typed columns are not those declared now."""
        work: list[_Work] = []
        left_bytes = self._settings.round_max_bytes
        for topic, partition in self._backfills.places(topics.values()):
            stream = topic.stream(partition)
            if stream in busy or self._pauses.paused(topic.number):
                continue
            if left_bytes <= 0 or taken + len(work) >= self._settings.round_max_tasks:
                summary.more = True
                break
            found = await self._claim_parquet(self._backfills.behind, topic, partition, locked)
            if found is not None:
                assert found.due is not None
                work.append(found)
                left_bytes -= found.due.file_bytes
                busy.add(stream)
                summary.more = True
        return work

    async def _plan_rewrites(
        self, topics: dict[int, Topic], locked: list[int], busy: set[int], taken: int
    ) -> list[_Work]:
        """Tasks that merge small files, for streams that got enough new ones."""
        work: list[_Work] = []
        enough = self._settings.max_files_per_partition
        for stream in [stream for stream, count in self._new_files.items() if count >= enough]:
            number, partition = split_stream_id(stream)
            topic = topics.get(number)
            if topic is None:
                del self._new_files[stream]
                continue
            full = taken + len(work) >= self._settings.round_max_tasks
            if full or stream in busy or self._pauses.paused(number):
                continue
            found = await self._claim_parquet(self._planner.small_files, topic, partition, locked)
            self._new_files[stream] = 0
            if found is not None:
                work.append(found)
                busy.add(stream)
        return work

    async def _plan_key_compactions(
        self, topics: dict[int, Topic], locked: list[int], busy: set[int], taken: int
    ) -> list[_Work]:
        """Tasks that remove superseded records of topics whose policy is `compact`."""
        work: list[_Work] = []
        now_ms = self._runtime.clock.monotonic_ms()
        for topic in topics.values():
            if not topic.settings.compact or self._pauses.paused(topic.number):
                continue
            for partition in range(topic.partitions):
                stream = topic.stream(partition)
                looked_ms = self._cleaned_at_ms.get(stream)
                if stream in busy or taken + len(work) >= self._settings.round_max_tasks:
                    continue
                if looked_ms is not None and now_ms - looked_ms < self._settings.clean_interval_ms:
                    continue
                self._cleaned_at_ms[stream] = now_ms
                find = self._planner.superseded_keys
                found = await self._claim_parquet(find, topic, partition, locked)
                if found is not None:
                    work.append(found)
                    busy.add(stream)
        return work

    async def _claim_parquet(
        self,
        find: Callable[[Topic, int], Awaitable[Range | None]],
        topic: Topic,
        partition: int,
        locked: list[int],
    ) -> _Work | None:
        """A task on a stream's Parquet part, if nobody works on the stream and there is one."""
        stream = topic.stream(partition)
        if await find(topic, partition) is None:
            return None
        if stream not in locked:
            if not await self._lock(stream):
                return None
            locked.append(stream)
        if await self._unfinished(stream):
            return None
        # Only now nobody changes it any more.
        due = await find(topic, partition)
        return None if due is None else _Work(await self._saga.create(due), due)

    def _in_own_order(self, due: Sequence[tuple[Topic, int]]) -> Iterable[tuple[Topic, int]]:
        """Longest waiting first. Processes that share the work begin at different places."""
        if len(due) < 2:
            return due
        at = self._runtime.random.randrange(len(due)) if self._contended else 0
        return [*due[at:], *due[:at]]

    _contended = False
    """Whether another process held a lock lately."""

    # Doing it

    async def _carry_out(
        self, work: Sequence[_Work], summary: RoundSummary, progress: RoundWatcher | None
    ) -> None:
        by_topic: dict[tuple[int, JobKind], list[_Work]] = {}
        for item in work:
            record = item.task.record
            by_topic.setdefault((record.topic_number, JobKind(record.kind)), []).append(item)
        await self._run_jobs(work, summary, progress)
        for items in by_topic.values():
            tasks = [item.task for item in items if item.task.record.state is not TaskState.CREATED]
            await self._settle(tasks, summary)

    async def _run_jobs(
        self, work: Sequence[_Work], summary: RoundSummary, progress: RoundWatcher | None
    ) -> None:
        """Have the new tasks' files written. A table that cannot be loaded stops its topic only."""
        jobs: list[tuple[Task, TopicRef, Job]] = []
        for item in work:
            if item.due is None:
                continue
            topic = item.due.topic
            try:
                declaration = declared(topic.overrides)
                table, typed = await self._columns.table(topic_ref(topic), declaration)
            except (TableError, TooManyConflicts, ColumnsContended) as error:
                self._failed(topic.name, topic.number, error, summary)
                await self._forget(item.task)
                continue
            job = self._saga.job(item.task, item.due, table, typed)
            jobs.append((item.task, topic_ref(topic), job))
        if not jobs:
            return
        if progress is not None:
            progress.planned([job for _, _, job in jobs])
        try:
            results = await self._runs.run([(topic, job) for _, topic, job in jobs], progress)
        except RunnerUnavailable as error:
            summary.failures.append(str(error))
            for task, _, _ in jobs:
                await self._forget(task)
            return
        for (task, _, job), result in zip(jobs, results, strict=True):
            await self._take_result(task, job, result, summary)

    async def _take_result(
        self, task: Task, job: Job, result: JobResult, summary: RoundSummary
    ) -> None:
        summary.cpu_seconds += result.cpu_seconds
        if result.error is not None:
            summary.failures.append(f"{job.title}: {result.error}")
            await self._forget(task)
            return
        try:
            await self._saga.written(task, result)
        except TaskLost:
            logger.info("another process took the task", task=describe(task))
            return
        topic = summary.of(job.topic)
        topic.records += result.record_count
        topic.files += len(result.files)
        topic.input_bytes += job.input_bytes
        topic.file_bytes += sum(file.size_bytes for file in result.files)

    async def _forget(self, task: Task) -> None:
        """A new task that got nowhere; if it cannot be forgotten now, the next round does it."""
        try:
            await self._saga.abandon_unwritten(task)
        except MetadataError as error:
            logger.warning("cannot forget a task", task=describe(task), error=str(error))

    async def _settle(self, tasks: Sequence[Task], summary: RoundSummary) -> None:
        """Publish one topic's written tasks and finish those that are published."""
        written = [task for task in tasks if task.record.state is TaskState.PARQUET_WRITTEN]
        ahead = [task for task in tasks if task.record.state is not TaskState.PARQUET_WRITTEN]
        if written:
            try:
                ahead += await self._publish(written)
            except (TableError, TooManyConflicts, ColumnsContended) as error:
                # Nothing is swapped; the files are there, and the commit is tried again.
                record = written[0].record
                self._failed(record.topic, record.topic_number, error, summary)
            else:
                self._pauses.succeeded(written[0].record.topic_number)
        for task in ahead:
            try:
                await self._saga.complete(task)
            except TaskLost:
                logger.info("another process finished the task", task=describe(task))
                continue
            self._completed(task, summary)

    async def _publish(self, tasks: Sequence[Task]) -> list[Task]:
        record = tasks[0].record
        topic = self._topics.get_by_number(record.topic_number)
        if topic is None:
            return []
        lock = compaction.table_lock(record.topic)
        held = await self._table_lock(lock)
        try:
            # It may have been dropped and made anew since the files were written.
            await self._columns.table(topic_ref(topic), declared(topic.overrides))
            return await self._saga.commit(topic_ref(topic), tasks)
        finally:
            if held:
                await self._release(lock)

    async def _table_lock(self, key: str) -> bool:
        """Wait for the table's lock for a while. It saves conflicts; the table fences itself."""
        for _ in range(TABLE_LOCK_ATTEMPTS):
            if await self._leases.hold(key):
                return True
            await asyncio.sleep(TABLE_LOCK_PAUSE_MS / 1000)
        return False

    def _completed(self, task: Task, summary: RoundSummary) -> None:
        record = task.record
        topic = summary.of(record.topic)
        topic.tasks += 1
        topic.snapshot_id = record.snapshot_id
        stream = task.stream_id
        # Those that were there before this process started have not been looked at, either.
        enough = self._settings.max_files_per_partition
        self._new_files[stream] = self._new_files.get(stream, enough) + len(record.files)
        if JobKind(record.kind) is JobKind.COMPACT:
            cumulative_size = int(record.last_key.rsplit("-", 1)[1])
            self._planner.swapped(stream, record.end, cumulative_size)

    # Locks

    async def _lock(self, stream: int) -> bool:
        held = await self._leases.hold(compaction.stream_lock(stream))
        self._contended = self._contended or not held
        return held

    async def _release(self, key: str) -> None:
        try:
            await self._leases.release(key)
        except MetadataError:
            return  # It ends with the session; a commit, or a cancellation, is not undone by it.

    async def _unlock(self, locked: Sequence[int]) -> None:
        for stream in locked:
            try:
                await self._leases.release(compaction.stream_lock(stream))
            except MetadataError:
                return  # They end with the session.


def topic_ref(topic: Topic) -> TopicRef:
    """The topic as its table knows it."""
    return TopicRef(topic.name, topic.number, str(topic.topic_id))
