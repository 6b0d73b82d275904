"""Known bugs, planted into the product for a run: what the simulation must be able to find.

Each is a mistake that somebody could make in one place, most of them by leaving out one line.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tests.faults.simulation.planted_groups import GROUP_BUGS
from tests.faults.simulation.planted_tables import TABLE_BUGS, Patch

from towpath.gc import retention
from towpath.gc.orphans import OrphanCollector
from towpath.gc.wal import WalCollector
from towpath.log.interface import Bounds
from towpath.log.object import producer_states
from towpath.log.object.committer import Committer
from towpath.log.object.index import Index
from towpath.log.object.producer_states import ProducerStates
from towpath.log.object.staging import Staging
from towpath.log.object.writer import DomainWriter
from towpath.log.producers import ProducerTable
from towpath.metadata.keys import wal
from towpath.metadata.store import ABSENT, ChangeSet, KeyIs, KeyValue, TailIs, VersionConflict
from towpath.objects.store import ObjectStoreError
from towpath.topics.cache import TopicCache

_upload = DomainWriter._upload
_conditions = Committer._conditions
_settle = Committer._settle
_on_changes = Index._on_changes


class _PutsLater:
    """An object store whose puts return before they have happened."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def put(self, path: str, parts: Sequence[Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._inner.put(path, parts))
        task.add_done_callback(lambda done: done.exception())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _commit_before_put() -> Patch:
    async def upload(self: Any, buffer: Any) -> Any:
        real, self._objects = self._objects, _PutsLater(self._objects)
        try:
            return await _upload(self, buffer)
        finally:
            self._objects = real

    return DomainWriter, "_upload", upload


def _without_condition(kind: type) -> Patch:
    def conditions(self: Any, slot: Any, plans: Any) -> list[Any]:
        return [one for one in _conditions(self, slot, plans) if not isinstance(one, kind)]

    return Committer, "_conditions", conditions


def _ambiguous_commit_resent() -> Patch:
    async def settle(self: Any, upload: Any, plans: Any, cause: Exception) -> Any:
        return await self._write(upload, plans)

    return Committer, "_settle", settle


def _ambiguous_commit_discarded() -> Patch:
    async def settle(self: Any, upload: Any, plans: Any, cause: Any) -> Any:
        try:
            return await _settle(self, upload, plans, cause)
        except Exception:
            await self._staging.discard(upload.slot)
            raise

    return Committer, "_settle", settle


def _watch_ignored() -> Patch:
    return Index, "_on_changes", lambda self, changes: None


def _log_start_never_forgotten() -> Patch:
    def on_changes(self: Any, changes: ChangeSet) -> None:
        kept = tuple(one for one in changes.changes if not one.key.endswith("/log-start"))
        _on_changes(self, ChangeSet(kept, changes.resync))

    return Index, "_on_changes", on_changes


def _topic_changes_ignored() -> Patch:
    return TopicCache, "_on_change", lambda self, changed: None


def _stale_end_answered() -> Patch:
    async def bounds(self: Any, stream_ids: Sequence[int]) -> list[Bounds]:
        ends = self._growth._seen_ends
        return [
            Bounds(await self._load_log_start(stream_id), ends.get(stream_id, 0))
            for stream_id in stream_ids
        ]

    return Index, "bounds", bounds


def _orphans_not_looked_up() -> Patch:
    async def committed(self: Any, domain: int, wal_ids: Any) -> set[uuid.UUID]:
        return set()

    return OrphanCollector, "_committed", committed


def _orphans_not_condemned() -> Patch:
    return OrphanCollector, "_may_be_collected", lambda self, marker: True


def _index_not_confirmed() -> Patch:
    async def is_named(self: Any, wal_id: uuid.UUID, derefs: Sequence[KeyValue]) -> bool:
        return False

    return WalCollector, "_is_named", is_named


def _one_deref_enough() -> Patch:
    async def consider(self: Any, wal_id: uuid.UUID, derefs: Sequence[KeyValue]) -> None:
        found = await self._find_record(wal_id)
        if found is None or await self._is_named(wal_id, derefs):
            return
        due_ms = self._clock.now_ms() + self._settings.wal_gc_grace_ms
        order = wal.GcOrder(found[1].path, due_ms)
        try:
            await self._store.put(wal.gc(found[0], wal_id), order.encode(), expect=ABSENT)
        except VersionConflict:
            return

    return WalCollector, "_consider", consider


def _producers_not_rebuilt() -> Patch:
    async def load_snapshot(self: Any, stream_id: int) -> ProducerTable:
        (tail,) = await self._store.tails((stream_id,))
        return ProducerTable(tail.offset_end)

    return ProducerStates, "_load_snapshot", load_snapshot


def _producers_not_saved() -> Patch:
    async def save(self: Any, stream_id: int, upto_offset: int) -> None:
        return

    return ProducerStates, "save", save


def _removed_entries_skipped() -> Patch:
    return producer_states, "_is_incomplete", lambda table, page: False


def _failed_put_forgotten() -> Patch:
    async def abandon(self: Any, slot: Any) -> None:
        try:
            await self._objects.delete(slot.path)
        except ObjectStoreError:
            return
        await self.settle(slot)

    return Staging, "abandon", abandon


def _log_start_not_moved() -> Patch:
    async def advance(store: Any, stream_id: int, offset: int) -> int:
        return offset

    return retention, "advance_log_start", advance


BROKER_BUGS: dict[str, Callable[[], Patch]] = {
    "commit-before-put": _commit_before_put,
    "marker-not-checked": lambda: _without_condition(KeyIs),
    "tail-not-compared": lambda: _without_condition(TailIs),
    "ambiguous-commit-resent": _ambiguous_commit_resent,
    "ambiguous-commit-discarded": _ambiguous_commit_discarded,
    "watch-ignored": _watch_ignored,
    "log-start-never-forgotten": _log_start_never_forgotten,
    "topic-changes-ignored": _topic_changes_ignored,
    "stale-end-answered": _stale_end_answered,
    "orphans-not-looked-up": _orphans_not_looked_up,
    "orphans-not-condemned": _orphans_not_condemned,
    "index-not-confirmed": _index_not_confirmed,
    "one-deref-enough": _one_deref_enough,
    "producers-not-rebuilt": _producers_not_rebuilt,
    "producers-not-saved": _producers_not_saved,
    "removed-entries-skipped": _removed_entries_skipped,
    "failed-put-forgotten": _failed_put_forgotten,
    "log-start-not-moved": _log_start_not_moved,
}
BUGS = (*BROKER_BUGS, *TABLE_BUGS, *GROUP_BUGS)
"""The names of all bugs."""


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Within this, the product has the bug; None leaves it as it is."""
    if name is None:
        yield
        return
    many = {**TABLE_BUGS, **GROUP_BUGS}
    patches = [BROKER_BUGS[name]()] if name in BROKER_BUGS else many[name]()
    with ExitStack() as stack:
        for owner, attribute, replacement in patches:
            stack.enter_context(patch.object(owner, attribute, replacement))
        yield
