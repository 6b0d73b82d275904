"""Tables that are opened when they are first needed, and again if that failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import Change, Maintained, Table, Tables, TopicRef
from towpath.objects.store import ObjectInfo
from towpath.typed.types import Fields

OpenTables = Callable[[], Awaitable[Tables]]


class LazyTables(Tables):
    """Passes every call on to what `open_tables` gives."""

    def __init__(self, open_tables: OpenTables) -> None:
        self._open_tables = open_tables
        self._opened: Tables | None = None
        self._opening = asyncio.Lock()

    async def load(self, topic: TopicRef) -> Table | None:
        return await (await self._tables()).load(topic)

    async def create(self, topic: TopicRef) -> Table:
        return await (await self._tables()).create(topic)

    async def commit(self, table: Table, change: Change) -> Table:
        return await (await self._tables()).commit(table, change)

    async def evolve(self, table: Table, columns: Fields) -> Table:
        return await (await self._tables()).evolve(table, columns)

    async def files(self, table: Table) -> list[tuple[int, str]]:
        return await (await self._tables()).files(table)

    async def files_below(
        self, table: Table, offsets: Mapping[int, int]
    ) -> list[tuple[int, ParquetFile]]:
        return await (await self._tables()).files_below(table, offsets)

    async def every_file(self, name: str) -> list[str]:
        return await (await self._tables()).every_file(name)

    async def maintain(self, table: Table) -> Maintained:
        return await (await self._tables()).maintain(table)

    async def set_aside(self, topic: TopicRef) -> str | None:
        return await (await self._tables()).set_aside(topic)

    async def drop(self, topic: TopicRef) -> list[str]:
        return await (await self._tables()).drop(topic)

    async def sweep_metadata(
        self,
        table: Table,
        list_objects: Callable[[str], AsyncIterator[ObjectInfo]],
        delete: Callable[[str], Awaitable[None]],
    ) -> int:
        return await (await self._tables()).sweep_metadata(table, list_objects, delete)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _tables(self) -> Tables:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._open_tables()
            return self._opened
