"""Topics' tables in an Iceberg catalog, for the event loop: what blocks runs in other threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import ParamSpec, TypeVar

from towpath.lakehouse.iceberg.blocking import BlockingTables
from towpath.lakehouse.iceberg.settings import IcebergSettings
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import (
    CatalogUnavailable,
    Change,
    CommitUnknown,
    Maintained,
    Table,
    TableError,
    Tables,
    TopicRef,
)
from towpath.objects.store import ObjectInfo
from towpath.runtime import Clock, Offload
from towpath.typed.types import Fields

P = ParamSpec("P")
R = TypeVar("R")

CALLS_AT_ONCE = 4
SWEPT_FILES_MAX = 10_000
"""Metadata files that one sweep looks at; the next one goes on."""


class IcebergTables(Tables):
    """See `Tables`. Every wait ends: with CommitUnknown if a commit was asked for, and with
    CatalogUnavailable if not."""

    def __init__(self, settings: IcebergSettings, offload: Offload, clock: Clock) -> None:
        self._tables = BlockingTables(settings, clock)
        self._offload = offload
        self._clock = clock
        self._settings = settings
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)

    async def load(self, topic: TopicRef) -> Table | None:
        return await self._run(CatalogUnavailable, self._tables.load, topic)

    async def create(self, topic: TopicRef) -> Table:
        return await self._run(CatalogUnavailable, self._tables.create, topic)

    async def commit(self, table: Table, change: Change) -> Table:
        return await self._run(CommitUnknown, self._tables.commit, table, change)

    async def evolve(self, table: Table, columns: Fields) -> Table:
        return await self._run(CommitUnknown, self._tables.evolve, table, columns)

    async def files(self, table: Table) -> list[tuple[int, str]]:
        return await self._run(CatalogUnavailable, self._tables.files, table)

    async def files_below(
        self, table: Table, offsets: Mapping[int, int]
    ) -> list[tuple[int, ParquetFile]]:
        """Data files, of these partitions, with records only below the partition's offset."""
        return await self._run(CatalogUnavailable, self._tables.files_below, table, offsets)

    async def every_file(self, name: str) -> list[str]:
        return await self._run(CatalogUnavailable, self._tables.every_file, name)

    async def maintain(self, table: Table) -> Maintained:
        return await self._run(CommitUnknown, self._tables.maintain, table)

    async def drop(self, topic: TopicRef) -> list[str]:
        return await self._run(CatalogUnavailable, self._tables.drop, topic)

    async def set_aside(self, topic: TopicRef) -> str | None:
        return await self._run(CatalogUnavailable, self._tables.set_aside, topic)

    async def sweep_metadata(
        self,
        table: Table,
        list_objects: Callable[[str], AsyncIterator[ObjectInfo]],
        delete: Callable[[str], Awaitable[None]],
    ) -> int:
        """Delete old metadata files of the table that nothing names; how many. The functions are
        the object store's `list` and `delete`; without the table's metadata in it, nothing is done.
        """
        prefix = self._tables.metadata_prefix(table)
        if prefix is None:
            return 0
        oldest_ms = self._clock.now_ms() - self._settings.upkeep.sweep_grace_ms
        old: list[str] = []
        async for info in list_objects(prefix):
            if info.modified_at_ms <= oldest_ms and len(old) < SWEPT_FILES_MAX:
                old.append(info.path)
        if not old:
            return 0
        unneeded = await self._run(CatalogUnavailable, self._tables.unreferenced, table.topic, old)
        for path in unneeded:
            await delete(path)
        return len(unneeded)

    async def close(self) -> None:
        """Release the catalog; nothing may be under way."""
        await self._offload(self._tables.close)

    async def _run(
        self,
        too_late: type[TableError],
        work: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        limit_s = self._settings.call_timeout_ms / 1000
        async with self._calls:
            try:
                async with asyncio.timeout(limit_s):
                    return await self._offload(work, *args, **kwargs)
            except TimeoutError:
                raise too_late(f"no answer from the catalog within {limit_s:g} s") from None
