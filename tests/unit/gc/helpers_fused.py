"""Stores whose user may die before any of their operations."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from towpath.metadata.store import (
    ANY,
    Append,
    Committed,
    Condition,
    Expect,
    KeyValue,
    MetadataStore,
    Put,
    Session,
    Tail,
    Watch,
    WatchCallback,
)
from towpath.objects.store import Buffer, ObjectInfo, ObjectStore


class Crash(Exception):
    """The process died here."""


@dataclass
class Fuse:
    """Counts store operations, yields a random number of times before each, and may blow."""

    chance: random.Random
    left: int | None = None
    operations: int = 0

    async def burn(self) -> None:
        self.operations += 1
        for _ in range(self.chance.randrange(3)):
            await asyncio.sleep(0)
        if self.left is not None:
            if self.left <= 0:
                raise Crash
            self.left -= 1


class FusedStore(MetadataStore):
    """A metadata store whose user may die before any operation."""

    def __init__(self, inner: MetadataStore, fuse: Fuse) -> None:
        self.inner = inner
        self.fuse = fuse

    async def get(self, key: str) -> KeyValue | None:
        await self.fuse.burn()
        return await self.inner.get(key)

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        await self.fuse.burn()
        return await self.inner.put(key, value, expect=expect, session=session)

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        await self.fuse.burn()
        return await self.inner.delete(key, expect=expect)

    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        await self.fuse.burn()
        return await self.inner.scan(start, end, limit=limit)

    async def first_above(self, key: str, end: str) -> KeyValue | None:
        await self.fuse.burn()
        return await self.inner.first_above(key, end)

    async def last(self, start: str, end: str) -> KeyValue | None:
        await self.fuse.burn()
        return await self.inner.last(start, end)

    async def tails(self, stream_ids: Sequence[int]) -> list[Tail]:
        await self.fuse.burn()
        return await self.inner.tails(stream_ids)

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        await self.fuse.burn()
        return await self.inner.commit(
            domain, appends=appends, puts=puts, deletes=deletes, expect=expect
        )

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        return self.inner.watch(prefix, callback)

    async def barrier(self) -> None:
        await self.inner.barrier()

    async def open_session(self, ttl_ms: int) -> Session:
        return await self.inner.open_session(ttl_ms)

    async def probe(self) -> None:
        await self.inner.probe()

    async def close(self) -> None:
        await self.inner.close()


class FusedObjects(ObjectStore):
    """An object store whose user may die before any operation."""

    def __init__(self, inner: ObjectStore, fuse: Fuse) -> None:
        self.inner = inner
        self.fuse = fuse

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        await self.fuse.burn()
        await self.inner.put(path, parts)

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        await self.fuse.burn()
        return await self.inner.read(path, offset, length)

    async def stat(self, path: str) -> ObjectInfo:
        await self.fuse.burn()
        return await self.inner.stat(path)

    async def delete(self, path: str) -> None:
        await self.fuse.burn()
        await self.inner.delete(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        await self.fuse.burn()
        async for info in self.inner.list(prefix):
            await self.fuse.burn()
            yield info

    async def probe(self) -> None:
        await self.inner.probe()

    async def close(self) -> None:
        await self.inner.close()
