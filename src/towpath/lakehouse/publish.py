"""The commit of a round's files to one topic's table.

The table decides: a partition's mark tells how far it has come and by whose task. A task whose
range is not taken is committed, one whose commit got through without an answer is recognised, and
one that came too late is told so. After every conflict and every lost answer the table is loaded
and asked again; nothing is repeated blindly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import structlog

from towpath.gc.entries import decode_row
from towpath.gc.paging import scan_pages
from towpath.lakehouse.plan import JobKind, ParquetFile
from towpath.lakehouse.planner import files_of, is_parquet
from towpath.lakehouse.tables import (
    Change,
    CommitConflict,
    CommitUnknown,
    Mark,
    SupersededTable,
    Table,
    TableMissing,
    Tables,
    TopicRef,
)
from towpath.lakehouse.tasks import Task
from towpath.metadata.keys import streams
from towpath.metadata.keys.compaction import TaskRecord
from towpath.metadata.keys.topics import stream_id
from towpath.metadata.store import MetadataStore
from towpath.typed.types import Fields

COMMIT_ATTEMPTS = 20
DAY_MS = 86_400_000

logger = structlog.get_logger(__name__)


class Verdict(Enum):
    """What the table says of a task."""

    READY = "ready"
    APPLIED = "applied"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class Published:
    """The table after the commit, and the tasks whose range somebody else had taken."""

    table: Table
    taken: frozenset[str]


class TooManyConflicts(Exception):
    """Others kept changing the table; the tasks are tried again in the next round."""


class Publisher:
    """Commits tasks' files to tables, and keeps each table as it was last seen."""

    def __init__(self, store: MetadataStore, tables: Tables) -> None:
        self._store = store
        self._tables = tables
        self._seen: dict[int, Table] = {}
        self._columns: dict[int, Fields] = {}
        """The typed columns that tables must have, by topic number."""

    async def table(self, topic: TopicRef) -> Table:
        """The topic's table, made if it is missing; may be a little old."""
        seen = self._seen.get(topic.number)
        return seen if seen is not None else await self._load(topic)

    def forget(self, topic_number: int) -> None:
        """Load the table again when it is next needed."""
        self._seen.pop(topic_number, None)

    def remember(self, table: Table) -> None:
        """A newer state of a table, from somebody else's commit in this process."""
        self._seen[table.topic.number] = table

    async def require(self, topic: TopicRef, columns: Fields) -> Table:
        """The topic's table when it has these columns; it will have them, too, if somebody drops it
        and it is made again. Raises TableError."""
        table = await self.table(topic)
        self._columns[topic.number] = columns
        for _ in range(COMMIT_ATTEMPTS):
            try:
                table = self._seen[topic.number] = await self._tables.evolve(table, columns)
                return table
            except (CommitConflict, CommitUnknown, TableMissing) as error:
                logger.info("table changed, looking again", topic=topic.name, error=str(error))
                table = await self.look(topic)
        raise TooManyConflicts(f"{topic.name}: {COMMIT_ATTEMPTS} commits conflicted")

    async def publish(self, topic: TopicRef, tasks: Sequence[Task]) -> Published:
        """Bring the files of all tasks into the table, each exactly once."""
        table = await self._up_to(topic, tasks)
        lost: set[str] = set()
        for _ in range(COMMIT_ATTEMPTS):
            verdicts = {task.record.task_id: judge(task.record, table) for task in tasks}
            lost |= {task for task, verdict in verdicts.items() if verdict is Verdict.TAKEN}
            ready = [
                task
                for task in tasks
                if verdicts[task.record.task_id] is Verdict.READY
                and task.record.task_id not in lost
            ]
            if not ready:
                return Published(table, frozenset(lost))
            try:
                table = await self._tables.commit(table, await self._change(table, ready))
                self._seen[topic.number] = table
            except (CommitConflict, CommitUnknown, TableMissing) as error:
                logger.info("table changed, looking again", topic=topic.name, error=str(error))
                self.forget(topic.number)
                table = await self._load(topic)
                lost |= await self._without_files(table, ready)
            except BaseException:
                self.forget(topic.number)
                raise
        raise TooManyConflicts(f"{topic.name}: {COMMIT_ATTEMPTS} commits conflicted")

    async def _up_to(self, topic: TopicRef, tasks: Sequence[Task]) -> Table:
        """The table as it was last seen; loaded again if it lacks what lies before the tasks,
        because others have committed since."""
        table = await self.table(topic)
        if any(_is_behind(table, task.record) for task in tasks):
            table = await self._load(topic)
        return table

    async def _without_files(self, table: Table, tasks: Sequence[Task]) -> set[str]:
        """The tasks that would replace a file which is not in the table any more."""
        removing = [task for task in tasks if task.record.removed]
        if not removing:
            return set()
        present = {path for _, path in await self._tables.files(table)}
        return {
            task.record.task_id
            for task in removing
            if judge(task.record, table) is not Verdict.APPLIED
            and any(file["path"] not in present for file in task.record.removed)
        }

    async def _load(self, topic: TopicRef) -> Table:
        """The table as it is now, with the columns that were required of it."""
        columns = self._columns.get(topic.number)
        if columns is None:
            return await self.look(topic)
        await self.look(topic)
        return await self.require(topic, columns)

    async def look(self, topic: TopicRef) -> Table:
        """The table as it is now, made if it is missing."""
        self.forget(topic.number)
        try:
            table = await self._tables.load(topic)
        except SupersededTable:
            aside = await self._tables.set_aside(topic)
            logger.info("set an earlier topic's table aside", topic=topic.name, name=aside)
            table = await self._tables.load(topic)
        if table is None:
            table = await self._tables.create(topic)
        self._seen[topic.number] = table
        return table

    async def _change(self, table: Table, tasks: Sequence[Task]) -> Change:
        marks: dict[int, Mark] = {}
        added: list[tuple[int, ParquetFile]] = []
        removed: list[tuple[int, ParquetFile]] = []
        for task in tasks:
            record = task.record
            before = table.mark(record.partition)
            if JobKind(record.kind) is JobKind.COMPACT:
                added += await self._missing(table, record, before.end)
                marks[record.partition] = replace(before, end=record.end, task_id=record.task_id)
            else:
                marks[record.partition] = replace(before, rewrite_id=record.task_id)
            added += _placed(table, record.partition, record.files)
            removed += _placed(table, record.partition, record.removed)
        changes_rows = any(JobKind(task.record.kind) is not JobKind.REWRITE for task in tasks)
        return Change(marks, added, removed, changes_rows=changes_rows)

    async def _missing(
        self, table: Table, record: TaskRecord, table_end: int
    ) -> list[tuple[int, ParquetFile]]:
        """Files that the index names below the task's range and the table does not have.

        There are none, unless somebody dropped the table: then the new one gets them all.
        """
        if table_end >= record.start:
            return []
        stream = stream_id(record.topic_number, record.partition)
        start = streams.first_entry_above(stream, table_end)
        files: list[ParquetFile] = []
        async for page in scan_pages(self._store, start, record.last_key):
            entries = [decode_row(row) for row in page]
            for entry in entries:
                if is_parquet(entry) and entry.offset_end <= record.start:
                    files += files_of(entry)
        if files:
            logger.warning(
                "the table lacks compacted records: they are added again",
                topic=record.topic,
                partition=record.partition,
                start=table_end,
                end=record.start,
                files=len(files),
            )
        return [(record.partition, _dated(table, file)) for file in files]


def judge(record: TaskRecord, table: Table) -> Verdict:
    """Whether the table has the task's files, may get them, or has others in their place."""
    mark = table.mark(record.partition)
    if JobKind(record.kind) is not JobKind.COMPACT:
        # Whether its files are still those to be replaced is what the commit itself checks.
        return Verdict.APPLIED if mark.rewrite_id == record.task_id else Verdict.READY
    if mark.task_id == record.task_id:
        return Verdict.APPLIED
    return Verdict.READY if mark.end <= record.start else Verdict.TAKEN


def _is_behind(table: Table, record: TaskRecord) -> bool:
    """Whether the table has not come as far as the task's range."""
    is_compaction = JobKind(record.kind) is JobKind.COMPACT
    return is_compaction and table.mark(record.partition).end < record.start


def _placed(
    table: Table, partition: int, files: Sequence[Mapping[str, object]]
) -> list[tuple[int, ParquetFile]]:
    return [(partition, _dated(table, ParquetFile.from_json(fields))) for fields in files]


def _dated(table: Table, file: ParquetFile) -> ParquetFile:
    """The index does not tell the day of a file; its records do."""
    if not table.split_by_day or file.day is not None:
        return file
    return replace(file, day=file.min_timestamp_ms // DAY_MS)
