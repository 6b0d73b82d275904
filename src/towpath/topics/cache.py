"""The catalog's memory of the topics, fed by the store's watch.

A change marks a name as dirty; one reader at a time reads dirty names again, so what a reader
applies is never older than what the reader before it applied. A gap in the feed reads all again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from towpath.metadata.keys import topics as keys
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import (
    ChangeSet,
    KeyValue,
    MetadataError,
    MetadataStore,
    Watch,
    prefix_end,
)
from towpath.topics.index import TopicIndex
from towpath.topics.interface import Topic

READS_AT_ONCE = 64
"""Dirty names read together; more of them are read in turns."""

SCAN_PAGE_KEYS = 1000
RETRY_MS = 200
"""How long the follower waits after the store failed."""

_log = structlog.get_logger(__name__)


class TopicCache:
    """Owns the index, the watch and the follower task."""

    def __init__(self, store: MetadataStore, build: Callable[[str, KeyValue], Topic]) -> None:
        self._store = store
        self._build = build
        self._dirty: set[str] = set()
        self._reload_due = True
        self._reading = asyncio.Lock()
        self._wake = asyncio.Event()
        self._watch: Watch | None = None
        self._follower: asyncio.Task[None] | None = None
        self.index = TopicIndex()

    async def start(self) -> None:
        """Watch, load every topic, and follow changes from then on."""
        self._watch = self._store.watch(keys.TOPICS_PREFIX, self._on_change)
        await self.settle()
        self._follower = asyncio.create_task(self._follow(), name="topics-follower")

    async def close(self) -> None:
        """Stop following."""
        if self._watch is not None:
            self._watch.cancel()
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)

    async def refresh(self) -> None:
        """After this, the index holds every change committed before the call."""
        await self._store.barrier()
        await self.settle()

    async def read(self, name: str) -> None:
        """Read one name again now; used after a change of our own."""
        self._dirty.add(name)
        await self.settle()

    async def settle(self) -> None:
        """Read what is dirty, and wait for a reader that is under way."""
        if not (self._dirty or self._reload_due or self._reading.locked()):
            return
        async with self._reading:
            if self._reload_due:
                await self._reload()
            if self._dirty:
                await self._read_dirty()

    def _on_change(self, changed: ChangeSet) -> None:
        self._reload_due = self._reload_due or changed.resync
        for change in changed.changes:
            if not keys.is_topic(change.key):
                continue
            name = keys.topic_name(change.key)
            known = self.index.get(name)
            if known is None or change.version is None or known.version < change.version:
                self._dirty.add(name)
        if self._dirty or self._reload_due:
            self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.settle()
            except MetadataError as error:
                _log.warning("topics cannot be read; trying again", error=str(error))
                await asyncio.sleep(RETRY_MS / 1000)
                self._wake.set()

    async def _read_dirty(self) -> None:
        names = sorted(self._dirty)
        # Cleared before reading: a change that arrives meanwhile marks its name again.
        self._dirty.clear()
        try:
            for start in range(0, len(names), READS_AT_ONCE):
                await self._read_names(names[start : start + READS_AT_ONCE])
        except BaseException:
            self._dirty.update(names)
            raise

    async def _read_names(self, names: Collection[str]) -> None:
        rows = await asyncio.gather(*(self._store.get(keys.topic(name)) for name in names))
        for name, row in zip(names, rows, strict=True):
            if row is None:
                self.index.drop(name)
            else:
                self._apply(row)

    async def _reload(self) -> None:
        self._reload_due = False
        self._dirty.clear()
        try:
            rows = await self._scan()
        except BaseException:
            self._reload_due = True
            raise
        self.index.keep_only({keys.topic_name(row.key) for row in rows})
        for row in rows:
            self._apply(row)

    async def _scan(self) -> list[KeyValue]:
        rows: list[KeyValue] = []
        start, end = keys.TOPICS_PREFIX, prefix_end(keys.TOPICS_PREFIX)
        while True:
            page = await self._store.scan(start, end, limit=SCAN_PAGE_KEYS)
            rows.extend(row for row in page if keys.is_topic(row.key))
            if len(page) < SCAN_PAGE_KEYS:
                return rows
            last = page[-1].key
            # The remaining partition records of a large topic need not be read.
            start = (
                last + "\0"
                if keys.is_topic(last)
                else prefix_end(keys.partitions_prefix(keys.topic_name(last)))
            )

    def _apply(self, row: KeyValue) -> None:
        try:
            topic = self._build(keys.topic_name(row.key), row)
        except UnknownValueVersion as error:
            _log.error("a topic's record cannot be read; it is left out", error=str(error))
            return
        self.index.put(topic)
