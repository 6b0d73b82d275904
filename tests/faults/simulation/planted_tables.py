"""Known bugs of the pipeline, for seeds with tables; see `planted.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from towpath.gc.entries import decode_row, drop_entries, put_deref
from towpath.gc.paging import scan_pages
from towpath.gc.wal import WalCollector
from towpath.lakehouse import publish
from towpath.lakehouse.file_gc import FileCollector
from towpath.lakehouse.orphan_files import OrphanFiles
from towpath.lakehouse.planner import Planner
from towpath.lakehouse.publish import Published, Publisher, Verdict
from towpath.lakehouse.saga import Saga
from towpath.lakehouse.swap import IndexSwap, Swapped
from towpath.lakehouse.tables import CommitConflict, CommitUnknown, TableMissing
from towpath.lakehouse.tasks import TaskStore
from towpath.lakehouse.upkeep import TableUpkeep
from towpath.lakehouse.value_columns import ValueColumns
from towpath.metadata.keys import streams
from towpath.metadata.keys.compaction import TaskState
from towpath.typed.decode import ValueDecoder

Patch = tuple[Any, str, Any]
"""Whose attribute is replaced by what."""

_commit = Saga.commit
_create = Saga.create
_row = ValueDecoder._row
_remember = ValueColumns._remember


def _swap_not_compared() -> list[Patch]:
    async def put(self: Any, task: Any) -> Swapped:
        found = await self._store.get(task.record.last_key)
        if found is None:
            return Swapped.GONE
        await self._keep_producers(task)
        await put_deref(self._store, decode_row(found))
        await self._store.put(found.key, self._entry(task.record))
        return Swapped.DONE

    return [(IndexSwap, "put", put)]


def _commit_retried_blindly() -> list[Patch]:
    async def publish_again(self: Any, topic: Any, tasks: Sequence[Any]) -> Published:
        table = await self.table(topic)
        while True:
            try:
                table = await self._tables.commit(table, await self._change(table, tasks))
            except (CommitConflict, CommitUnknown, TableMissing):
                self.forget(topic.number)
                table = await self._load(topic)
            else:
                self.remember(table)
                return Published(table, frozenset())

    return [(Publisher, "publish", publish_again)]


def _range_not_fenced() -> list[Patch]:
    real = publish.judge

    def judge(record: Any, table: Any) -> Verdict:
        verdict = real(record, table)
        return Verdict.READY if verdict is Verdict.TAKEN else verdict

    return [(publish, "judge", judge)]


def _swap_before_commit() -> list[Patch]:
    async def commit(self: Any, topic: Any, tasks: Sequence[Any]) -> list[Any]:
        for task in tasks:
            await self._swap.put(task)
        return await _commit(self, topic, tasks)

    return [(Saga, "commit", commit)]


def _early_deref_not_confirmed() -> list[Patch]:
    async def create(self: Any, due: Any) -> Any:
        for entry in due.entries:
            await put_deref(self._store, entry)
        return await _create(self, due)

    async def is_named(self: Any, wal_id: Any, derefs: Any) -> bool:
        return False

    return [(Saga, "create", create), (WalCollector, "_is_named", is_named)]


def _snapshots_not_asked() -> list[Patch]:
    async def load(self: Any, topic: Any) -> None:
        return None

    return [(FileCollector, "_load", load)]


def _cleared_beyond_range() -> list[Patch]:
    async def clear(self: Any, task: Any) -> None:
        start = streams.first_entry_above(task.stream_id, task.record.start)
        end = streams.index_end(task.stream_id)
        async for page in scan_pages(self._store, start, end):
            others = [decode_row(row) for row in page if row.key != task.record.last_key]
            await drop_entries(self._store, others)

    return [(IndexSwap, "clear", clear)]


def _producers_not_kept() -> list[Patch]:
    async def keep_producers(self: Any, task: Any) -> None:
        return

    return [(IndexSwap, "_keep_producers", keep_producers)]


def _dropped_table_not_refilled() -> list[Patch]:
    async def missing(self: Any, table: Any, record: Any, table_end: int) -> list[Any]:
        return []

    return [(Publisher, "_missing", missing)]


def _rewritten_files_not_looked_for() -> list[Patch]:
    async def without_files(self: Any, table: Any, tasks: Sequence[Any]) -> set[str]:
        return set()

    return [(Publisher, "_without_files", without_files)]


def _task_not_compared() -> list[Patch]:
    async def advance(self: Any, task: Any, record: Any) -> None:
        task.version = await self._store.put(task.key, record.encode())
        task.record = record

    return [(TaskStore, "advance", advance)]


def _done_task_left() -> list[Patch]:
    async def finish(self: Any, task: Any) -> None:
        if task.record.state is not TaskState.DONE:
            await self.advance(task, replace(task.record, state=TaskState.DONE))
            await self._remove(task)

    return [(TaskStore, "finish", finish)]


def _ordered_before_swap() -> list[Patch]:
    async def commit(self: Any, topic: Any, tasks: Sequence[Any]) -> list[Any]:
        committed = await _commit(self, topic, tasks)
        for task in committed:
            await self._order_deletion(task)
        return committed

    async def is_indexed(self: Any, order: Any) -> bool:
        return False

    return [(Saga, "commit", commit), (FileCollector, "_is_indexed", is_indexed)]


def _files_of_tasks_are_orphans() -> list[Patch]:
    async def in_tasks(self: Any, stream: int) -> set[str]:
        return set()

    return [(OrphanFiles, "_in_tasks", in_tasks)]


def _table_ahead_of_index() -> list[Patch]:
    async def let_go(self: Any, topic: Any, partition: int, file: Any) -> bool:
        return True

    return [(TableUpkeep, "_let_go", let_go)]


def _old_files_not_looked_for() -> list[Patch]:
    async def behind(self: Any, topic: Any, partition: int, stamp: str) -> None:
        return None

    return [(Planner, "behind", behind)]


def _reasons_lost() -> list[Patch]:
    def row(self: Any, value: bytes | None) -> Any:
        found, _ = _row(self, value)
        return found, None

    return [(ValueDecoder, "_row", row)]


def _found_columns_forgotten() -> list[Patch]:
    async def remember(self: Any, topic: Any, declaration: Any, found: Any) -> Any:
        return await _remember(self, topic, declaration, ())

    return [(ValueColumns, "_remember", remember)]


TABLE_BUGS: dict[str, Callable[[], list[Patch]]] = {
    "swap-not-compared": _swap_not_compared,
    "commit-retried-blindly": _commit_retried_blindly,
    "range-not-fenced": _range_not_fenced,
    "swap-before-commit": _swap_before_commit,
    "early-deref-not-confirmed": _early_deref_not_confirmed,
    "snapshots-not-asked": _snapshots_not_asked,
    "cleared-beyond-range": _cleared_beyond_range,
    "producers-not-kept": _producers_not_kept,
    "dropped-table-not-refilled": _dropped_table_not_refilled,
    "rewritten-files-not-looked-for": _rewritten_files_not_looked_for,
    "task-not-compared": _task_not_compared,
    "done-task-left": _done_task_left,
    "ordered-before-swap": _ordered_before_swap,
    "files-of-tasks-are-orphans": _files_of_tasks_are_orphans,
    "table-ahead-of-index": _table_ahead_of_index,
    "old-files-not-looked-for": _old_files_not_looked_for,
    "reasons-lost": _reasons_lost,
    "found-columns-forgotten": _found_columns_forgotten,
}
"""The bugs by name. Each is looked for in seeds with tables only."""
