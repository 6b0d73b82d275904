"""Objects that were PUT and never committed: found by the staging marker that reserved them.

A marker that is too old is condemned by compare-and-set. A commit is conditional on the marker as
its broker wrote it, so from then on none of the block can succeed. After a grace, for stores whose
commits cannot be conditional, the objects without a record go, and then the marker.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import structlog

from towpath.gc.paging import key_after, scan_pages
from towpath.gc.settings import GcSettings
from towpath.gc.summary import Summary
from towpath.metadata.keys import wal
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import KeyValue, MetadataStore, VersionConflict, prefix_end
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime

MARKERS_PER_ROUND = 1_000
"""Markers that a round collects at most."""
OBJECTS_PER_PAGE = 500
SHARED_CHARACTERS = 28
"""The walIds of a block share their first 12 bytes: 24 digits and 4 dashes of the usual form."""
OBJECT_SUFFIX = ".wo"

logger = structlog.get_logger(__name__)


class OrphanCollector:
    """Deletes objects of staging blocks whose broker never settled them."""

    def __init__(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        runtime: Runtime,
        settings: GcSettings,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._objects = objects
        self._clock = runtime.clock
        self._settings = settings
        self._metrics = metrics

    async def run_once(self) -> Summary:
        """Condemn what is too old, and collect what was condemned long enough ago."""
        examined = collected = removed = waiting = 0
        for domain in range(self._store.domain_count):
            prefix = wal.staging_prefix(domain)
            async for page in scan_pages(self._store, prefix, prefix_end(prefix)):
                for row in page:
                    examined += 1
                    marker = read_marker(row)
                    if marker is None:
                        continue
                    if self._may_be_collected(marker):
                        if collected == MARKERS_PER_ROUND:
                            return Summary(examined, removed, more=True)
                        collected += 1
                        removed += await self._collect(domain, row, marker)
                    else:
                        waiting += await self._condemn_if_old(row, marker)
        self._metrics.gc_orphan_blocks.set(waiting)
        return Summary(examined, removed)

    def _may_be_collected(self, marker: wal.StagingBlock) -> bool:
        if marker.condemned_at_ms is None:
            return False
        waited_ms = self._clock.now_ms() - marker.condemned_at_ms
        return waited_ms >= self._settings.wal_gc_grace_ms

    async def _condemn_if_old(self, row: KeyValue, marker: wal.StagingBlock) -> bool:
        """Condemn the block if its time is over; whether it is condemned now."""
        if marker.condemned_at_ms is not None:
            return True
        now_ms = self._clock.now_ms()
        if now_ms - marker.created_at_ms < self._settings.wal_orphan_ttl_ms:
            return False
        condemned = replace(marker, condemned_at_ms=now_ms)
        try:
            await self._store.put(row.key, condemned.encode(), expect=row.version)
        except VersionConflict:
            return False
        return True

    async def _collect(self, domain: int, row: KeyValue, marker: wal.StagingBlock) -> int:
        block = wal.parse_last_uuid(row.key)
        removed = 0
        async for wal_ids in self._objects_of(marker, block):
            committed = await self._committed(domain, wal_ids)
            for wal_id in wal_ids:
                if wal_id not in committed:
                    await self._objects.delete(path_of(marker, wal_id))
                    self._metrics.gc_deleted_objects.labels("orphans").inc()
                    removed += 1
        try:
            await self._store.delete(row.key, expect=row.version)
        except VersionConflict:
            pass  # Another broker's collector has finished it first.
        return removed

    async def _objects_of(
        self, marker: wal.StagingBlock, block: uuid.UUID
    ) -> AsyncIterator[list[uuid.UUID]]:
        """The walIds of a block that have an object, in order, some at a time."""
        found: list[uuid.UUID] = []
        async for info in self._objects.list(marker.path_prefix + str(block)[:SHARED_CHARACTERS]):
            wal_id = wal_id_of_path(marker, info.path)
            if wal_id is not None and wal.block_of(wal_id) == block:
                found.append(wal_id)
            if len(found) == OBJECTS_PER_PAGE:
                yield found
                found = []
        if found:
            yield found

    async def _committed(self, domain: int, wal_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        """Those in the span of `wal_ids` (ascending) that have a record."""
        start = wal.wal_object(domain, wal_ids[0])
        end = key_after(wal.wal_object(domain, wal_ids[-1]))
        return {
            wal.parse_last_uuid(row.key)
            async for page in scan_pages(self._store, start, end)
            for row in page
        }


def read_marker(row: KeyValue) -> wal.StagingBlock | None:
    """The marker; None if a newer release wrote it."""
    try:
        return wal.StagingBlock.decode(row.value)
    except UnknownValueVersion as error:
        logger.error("cannot read a staging marker", key=row.key, error=str(error))
        return None


def path_of(marker: wal.StagingBlock, wal_id: uuid.UUID) -> str:
    """The path of an object of the block."""
    return f"{marker.path_prefix}{wal_id}{OBJECT_SUFFIX}"


def wal_id_of_path(marker: wal.StagingBlock, path: str) -> uuid.UUID | None:
    """The inverse of `path_of`; None for a path that it does not make."""
    try:
        wal_id = uuid.UUID(path[len(marker.path_prefix) :].removesuffix(OBJECT_SUFFIX))
    except ValueError:
        return None
    return wal_id if path_of(marker, wal_id) == path else None
