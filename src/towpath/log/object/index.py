"""The offset index as the broker sees it: entries by offset, tails and log starts.

Caches are fed by own commits and kept honest by the metadata watch. `Index.bounds` asks the store
once, so that "empty" and "latest" are never answered from a stale cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from towpath.log.interface import Bounds
from towpath.log.object import entries
from towpath.log.object.entries import Entry
from towpath.log.object.growth import Growth
from towpath.log.object.index_cache import IndexCache
from towpath.metadata.keys import streams
from towpath.metadata.store import (
    ABSENT,
    ChangeSet,
    Expect,
    MetadataStore,
    VersionConflict,
)

PAGE_ENTRIES = 64
"""How many entries a cache miss reads ahead: a consumer that catches up reads on."""
SCAN_ENTRIES = 500
MAX_LOG_STARTS = 200_000
"""How many streams' log starts are remembered."""


class Index:
    """Reads entries of the store through the cache, and moves log starts."""

    def __init__(self, store: MetadataStore, cache: IndexCache, growth: Growth) -> None:
        self._store = store
        self._cache = cache
        self._growth = growth
        self._log_starts: OrderedDict[int, int] = OrderedDict()
        self._log_start_changes = 0
        self._watch = store.watch(streams.STREAMS_PREFIX, self._on_changes)

    def close(self) -> None:
        """Stop following the store."""
        self._watch.cancel()

    def committed(self, entry: Entry) -> None:
        """An entry of this broker's own commit: no need to read it back."""
        self._cache.add(entry)
        self._growth.grew(entry.stream_id, entry.end)

    async def bounds(self, stream_ids: Sequence[int]) -> list[Bounds]:
        """Log start and end of each stream, as of now."""
        # After the barrier the log starts in memory are as new as the tails.
        await self._store.barrier()
        tails = await self._store.tails(stream_ids)
        starts = self._log_starts
        return [
            Bounds(
                starts[stream_id] if stream_id in starts else await self._load_log_start(stream_id),
                tail.offset_end,
            )
            for stream_id, tail in zip(stream_ids, tails, strict=True)
        ]

    async def find(self, stream_id: int, offset: int) -> Entry | None:
        """The entry that contains the offset, or the first one after it."""
        cached = self._cache.find(stream_id, offset)
        return cached if cached is not None else await self.find_in_store(stream_id, offset)

    async def find_in_store(self, stream_id: int, offset: int) -> Entry | None:
        """As `find`, past the cache: the first key with `offset_end > offset`, and some more."""
        found = await self._store.scan(
            streams.first_entry_above(stream_id, offset),
            streams.index_end(stream_id),
            limit=PAGE_ENTRIES,
        )
        page = [entries.decode(item) for item in found]
        for entry in page:
            self._cache.add(entry)
        return page[0] if page else None

    def forget(self, stream_id: int) -> None:
        """Forget a stream's cached entries, one of which turned out to be stale."""
        self._cache.forget(stream_id)

    async def scan(self, stream_id: int, offset: int) -> AsyncIterator[Entry]:
        """Every entry with `offset_end > offset`, in order, read from the store page by page."""
        start = streams.first_entry_above(stream_id, offset)
        end = streams.index_end(stream_id)
        while True:
            found = await self._store.scan(start, end, limit=SCAN_ENTRIES)
            for item in found:
                yield entries.decode(item)
            if len(found) < SCAN_ENTRIES:
                return
            start = found[-1].key + "\0"

    async def advance_log_start(self, stream_id: int, offset: int) -> int:
        """Move the log start forward by compare-and-set; it never goes back."""
        key = streams.log_start(stream_id)
        while True:
            found = await self._store.get(key)
            current = streams.decode_log_start(found.value) if found is not None else 0
            if current >= offset:
                return current
            expect: Expect = found.version if found is not None else ABSENT
            try:
                await self._store.put(key, streams.encode_log_start(offset), expect=expect)
            except VersionConflict:
                continue
            # Not remembered: when the answer comes, somebody may have moved it on, and the watch
            # may have told so already.
            self._log_starts.pop(stream_id, None)
            return offset

    def known_log_start(self, stream_id: int) -> int | None:
        """The log start, if it is in memory."""
        return self._log_starts.get(stream_id)

    async def _load_log_start(self, stream_id: int) -> int:
        changes = self._log_start_changes
        found = await self._store.get(streams.log_start(stream_id))
        offset = streams.decode_log_start(found.value) if found is not None else 0
        if changes == self._log_start_changes:
            # Otherwise the answer may be older than a change that was announced meanwhile.
            self._remember_log_start(stream_id, offset)
        return offset

    def _remember_log_start(self, stream_id: int, offset: int) -> None:
        known = self._log_starts.get(stream_id, -1)
        self._log_starts[stream_id] = max(known, offset)
        if len(self._log_starts) > MAX_LOG_STARTS:
            self._log_starts.popitem(last=False)

    def _on_changes(self, changes: ChangeSet) -> None:
        if changes.resync:
            self._cache.clear()
            self._log_starts.clear()
            self._log_start_changes += 1
            self._growth.wake_all()
            return
        for change in changes.changes:
            if streams.is_index_entry(change.key):
                self._cache.changed(change.key, change.version)
                if change.version is not None:
                    stream_id, offset_end, _ = streams.parse_index_entry(change.key)
                    self._growth.grew(stream_id, offset_end)
            elif change.key.endswith("/log-start"):
                self._log_start_changes += 1
                self._log_starts.pop(streams.parse_stream_id(change.key), None)
