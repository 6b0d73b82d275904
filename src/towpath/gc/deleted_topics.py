"""Sweeping deleted topics: every key of their streams goes, and a deref lets every chunk go.

A broker whose cache is behind may append to a deleted topic for a moment. The grave therefore
stays for the orphan time, and each round sweeps again what has appeared.
"""

from __future__ import annotations

import structlog
from google.protobuf.message import DecodeError

from towpath.gc.entries import decode_row, drop_entries
from towpath.gc.paging import PAGE_KEYS, delete_keys, scan_pages
from towpath.gc.settings import GcSettings
from towpath.gc.summary import Summary
from towpath.log.object.entries import UnknownEntry
from towpath.metadata.keys import json_value, streams, writers
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import KeyValue, MetadataStore, VersionConflict, prefix_end
from towpath.runtime import Runtime
from towpath.topics import partition_keys

KEYS_PER_ROUND = 20_000
"""Stream keys that a round deletes at most."""

logger = structlog.get_logger(__name__)


class DeletedTopics:
    """Collects what deleted topics left."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        settings: GcSettings,
        *,
        keys_per_round: int = KEYS_PER_ROUND,
    ) -> None:
        self._store = store
        self._clock = runtime.clock
        self._settings = settings
        self._keys_per_round = keys_per_round

    async def run_once(self) -> Summary:
        """One pass over the graves, or a part of one if there is much to delete."""
        examined = removed = 0
        end = prefix_end(keys.DELETED_PREFIX)
        async for page in scan_pages(self._store, keys.DELETED_PREFIX, end):
            for row in page:
                examined += 1
                removed += await self._tend(row, self._keys_per_round - removed)
                if removed >= self._keys_per_round:
                    return Summary(examined, removed, more=True)
        return Summary(examined, removed)

    async def _tend(self, row: KeyValue, keys_max: int) -> int:
        try:
            return await self._sweep_grave(row, keys_max)
        except (UnknownEntry, DecodeError, ValueError, json_value.UnknownValueVersion) as error:
            logger.error("cannot sweep a deleted topic", grave=row.key, error=str(error))
            return 0

    async def _sweep_grave(self, row: KeyValue, keys_max: int) -> int:
        number = keys.parse_deleted(row.key)
        grave = keys.DeletedTopic.decode(row.value)
        over = self._clock.now_ms() - grave.deleted_at_ms >= self._settings.wal_orphan_ttl_ms
        if await self._lives(grave.name, number):
            # The grave is dug before the topic's record is deleted, and that may have failed.
            if over:
                await self._remove_grave(row)
            return 0
        removed = await self._sweep_streams(number, keys_max)
        removed += await self._sweep_writers(number)
        await partition_keys.remove(self._store, grave.name, number)
        if removed == 0 and over:
            await self._remove_grave(row)
        return removed

    async def _lives(self, name: str, number: int) -> bool:
        found = await self._store.get(keys.topic(name))
        return found is not None and keys.TopicRecord.decode(found.value).number == number

    async def _sweep_streams(self, number: int, keys_max: int) -> int:
        """Delete what lies under the topic's streams, whatever their count was."""
        start = streams.stream_prefix(keys.stream_id(number, 0))
        end = prefix_end(streams.stream_prefix(keys.stream_id(number, keys.MAX_PARTITIONS - 1)))
        removed = 0
        while removed < keys_max:
            # Always from the front: what could not be deleted in this page is seen again.
            page = await self._store.scan(start, end, limit=min(PAGE_KEYS, keys_max - removed))
            if not page:
                break
            entries = [decode_row(row) for row in page if streams.is_index_entry(row.key)]
            await drop_entries(self._store, entries)
            others = [row.key for row in page if not streams.is_index_entry(row.key)]
            await delete_keys(self._store, others)
            removed += len(page)
        return removed

    async def _sweep_writers(self, number: int) -> int:
        """Delete how far writers have come with the topic, a page at a time."""
        prefix = writers.progress_prefix(number)
        page = await self._store.scan(prefix, prefix_end(prefix), limit=PAGE_KEYS)
        await delete_keys(self._store, [row.key for row in page])
        return len(page)

    async def _remove_grave(self, row: KeyValue) -> None:
        try:
            await self._store.delete(row.key, expect=row.version)
        except VersionConflict:
            return
