"""The commit of a write: every staged object of every task becomes visible at once, or none.

With an epoch the writer's progress is part of the same commit and conditional on what it was: an
epoch that is in the topic already adds nothing, and of two drivers of one writer only one can add
it. Without one the write is at least once: who tries it again writes it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from towpath.metadata.keys import topics, wal, writers
from towpath.metadata.store import (
    ABSENT,
    Append,
    Condition,
    ConditionFailed,
    KeyIs,
    KeyValue,
    MetadataStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    VersionConflict,
)
from towpath.runtime import Runtime
from towpath.writing.errors import WriteFailed, WriteRefused, WriteUnknown
from towpath.writing.staged import Staged

MAX_ENTRIES = 20_000
"""Index entries that one commit may add: one per task, object and partition. The metadata store is
locked for others while it writes them, about a second."""
MAX_ATTEMPTS = 10
RETRY_DELAY_SECONDS = 0.2


class Outcome(Enum):
    """What became of a write."""

    ADDED = "added"
    """Its records are in the topic now."""
    NOTHING = "nothing"
    """There was nothing to add."""
    REPLAYED = "replayed"
    """The epoch was in the topic before: nothing was added, and the staged objects are in vain."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Which part of whose work this is. Epochs of a writer grow."""

    writer: str
    number: int
    strict: bool = False
    """Whether an epoch below the last one is an error, not a replay: nothing but the last one is
    ever replayed, unless somebody began to count anew."""


class TopicChanged(WriteRefused):
    """The topic of the write is gone."""


async def commit(
    store: MetadataStore, staged: Sequence[Staged], epoch: Epoch | None, runtime: Runtime
) -> Outcome:
    """Make everything visible that these tasks have staged, in their order.

    Raises WriteRefused if it must not be, WriteFailed if it was not, WriteUnknown if nobody knows.
    """
    parts = [part for part in staged if part.objects]
    if not parts:
        return Outcome.NOTHING
    entries = sum(len(each.chunks) for part in parts for each in part.objects)
    if entries > MAX_ENTRIES:
        raise WriteRefused(
            f"the write has {entries} chunks (one per task, object and partition), more than the "
            f"{MAX_ENTRIES} that one commit takes: write fewer rows at once, or in fewer tasks"
        )
    work = _Commit(store, parts, epoch, runtime)
    for attempt in range(MAX_ATTEMPTS):
        try:
            outcome = await work.attempt()
        except StoreUnavailable as error:
            if attempt == MAX_ATTEMPTS - 1:
                raise WriteFailed(f"the metadata store refused the commit: {error}") from error
            await asyncio.sleep(RETRY_DELAY_SECONDS * (attempt + 1))
            continue
        if outcome is not None:
            return outcome
    raise WriteFailed("others keep changing the topic, or write the same epoch")


class _Commit:
    """One commit on its way."""

    def __init__(
        self, store: MetadataStore, parts: Sequence[Staged], epoch: Epoch | None, runtime: Runtime
    ) -> None:
        self._store = store
        self._parts = parts
        self._epoch = epoch
        self._runtime = runtime
        first = parts[0]
        self._topic, self._number, self._domain = first.topic, first.topic_number, first.domain
        self._markers = {part.block.marker_key: part.block.marker_version for part in parts}

    async def attempt(self) -> Outcome | None:
        """Try once; None if what it depends on has changed meanwhile. Raises StoreUnavailable if
        nothing was changed and it may be tried again."""
        conditions: list[Condition] = [KeyIs(*marker) for marker in self._markers.items()]
        topic = await self._live_topic()
        conditions.append(KeyIs(topic.key, topic.version))
        puts = self._objects()
        if self._epoch is not None:
            progress = await self._progress(self._epoch)
            if _is_replay(self._epoch, progress):
                return Outcome.REPLAYED
            conditions.append(KeyIs(progress.key, progress.version))
            puts.append(self._advance(self._epoch, progress.key))
        try:
            await self._store.commit(
                self._domain, appends=self._appends(), puts=puts, expect=conditions
            )
        except ConditionFailed as conflict:
            self._check_markers(conflict)
            return None
        except OutcomeUnknown as error:
            await self._settle(error)
        return Outcome.ADDED

    async def _live_topic(self) -> KeyValue:
        found = await self._store.get(topics.topic(self._topic))
        if found is None or topics.TopicRecord.decode(found.value).number != self._number:
            raise TopicChanged(f"topic {self._topic!r} was deleted during the write")
        return found

    async def _progress(self, epoch: Epoch) -> KeyValue:
        """The writer's progress, which is begun if there is none: a commit cannot be conditional on
        a key that is not there."""
        key = writers.progress(self._number, epoch.writer)
        found = await self._store.get(key)
        if found is None:
            begun = writers.Progress(epoch.writer, writers.NO_EPOCH, self._runtime.clock.now_ms())
            try:
                version = await self._store.put(key, begun.encode(), expect=ABSENT)
                return KeyValue(key, begun.encode(), version)
            except (VersionConflict, OutcomeUnknown) as error:
                found = await self._store.get(key)
                if found is None:
                    raise StoreUnavailable(f"cannot write {key}: {error}") from error
        return found

    def _advance(self, epoch: Epoch, key: str) -> Put:
        now_ms = self._runtime.clock.now_ms()
        return Put(key, writers.Progress(epoch.writer, epoch.number, now_ms).encode())

    def _appends(self) -> list[Append]:
        return [
            Append(chunk.stream_id, chunk.record_count, chunk.size_bytes, chunk.entry)
            for part in self._parts
            for each in part.objects
            for chunk in each.chunks
        ]

    def _objects(self) -> list[Put]:
        return [
            Put(
                wal.wal_object(self._domain, each.wal_id),
                wal.WalObject(
                    each.path,
                    each.created_at_ms,
                    each.size_bytes,
                    tuple(chunk.stream_id for chunk in each.chunks),
                ).encode(),
            )
            for part in self._parts
            for each in part.objects
        ]

    def _check_markers(self, conflict: ConditionFailed) -> None:
        for condition in conflict.failed:
            if isinstance(condition, KeyIs) and condition.key in self._markers:
                raise WriteFailed(
                    "the write took so long that its staged objects were given up "
                    "(wal_orphan_ttl_ms): nothing of it is in the topic, write it again"
                )

    async def _settle(self, cause: OutcomeUnknown) -> None:
        """Look whether an ambiguous commit happened; it is never sent again. The objects stay:
        if it arrives late after all, it must find their bytes."""
        key = wal.wal_object(self._domain, self._parts[0].objects[0].wal_id)
        for attempt in range(MAX_ATTEMPTS):
            try:
                if await self._store.get(key) is not None:
                    return
                break
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(RETRY_DELAY_SECONDS * (attempt + 1))
        raise WriteUnknown(f"it is not known whether the commit was done: {cause}") from cause


def _is_replay(epoch: Epoch, found: KeyValue) -> bool:
    last = writers.Progress.decode(found.value)
    if epoch.strict and epoch.number < last.epoch:
        raise WriteRefused(
            f"epoch {epoch.number} of {epoch.writer!r} is below {last.epoch}, which is written "
            "already: whoever begins to count anew (a new checkpoint) needs a new name"
        )
    return epoch.number <= last.epoch
