"""Shared by the tests of topics, cluster and the admin APIs: a store with faults, and catalogs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from towpath.metadata.keys import topics as keys
from towpath.metadata.memory import MemorySession, MemoryStore
from towpath.metadata.memory_state import MemoryState
from towpath.metadata.store import (
    ANY,
    Append,
    Committed,
    Condition,
    Expect,
    KeyValue,
    Put,
    Session,
    prefix_end,
)
from towpath.runtime import inline_runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults

RUNTIME = inline_runtime(seed=7)


@dataclass(slots=True)
class Fault:
    """Happens once around a call of `verb` on a key that contains `key`."""

    verb: str
    key: str
    after: bool = False
    error: Exception | None = None
    action: Callable[[], Awaitable[object]] | None = None


class FaultyStore(MemoryStore):
    """A memory store that fails, or lets others act, at chosen points; counts its calls."""

    def __init__(self, state: MemoryState | None = None) -> None:
        super().__init__(RUNTIME, state)
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str]] = []

    async def _fire(self, verb: str, key: str, *, after: bool) -> None:
        for fault in tuple(self.faults):
            if fault.verb == verb and fault.key in key and fault.after == after:
                self.faults.remove(fault)
                if fault.action is not None:
                    await fault.action()
                if fault.error is not None:
                    raise fault.error

    async def get(self, key: str) -> KeyValue | None:
        self.calls.append(("get", key))
        await self._fire("get", key, after=False)
        found = await super().get(key)
        await self._fire("get", key, after=True)
        return found

    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        self.calls.append(("scan", start))
        await self._fire("scan", start, after=False)
        found = await super().scan(start, end, limit=limit)
        await self._fire("scan", start, after=True)
        return found

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        self.calls.append(("put", key))
        await self._fire("put", key, after=False)
        version = await super().put(key, value, expect=expect, session=session)
        await self._fire("put", key, after=True)
        return version

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        self.calls.append(("delete", key))
        await self._fire("delete", key, after=False)
        deleted = await super().delete(key, expect=expect)
        await self._fire("delete", key, after=True)
        return deleted

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        key = puts[0].key if puts else deletes[0] if deletes else ""
        self.calls.append(("commit", key))
        await self._fire("commit", key, after=False)
        done = await super().commit(
            domain, appends=appends, puts=puts, deletes=deletes, expect=expect
        )
        await self._fire("commit", key, after=True)
        return done

    async def barrier(self) -> None:
        await self._fire("barrier", "", after=False)
        await super().barrier()

    async def open_session(self, ttl_ms: int) -> Session:
        """Without the lower limit on the time, so that tests need not wait."""
        session = MemorySession(self.state, self.state.open_session(ttl_ms), ttl_ms)
        self._sessions.append(session)
        return session

    async def keys_under(self, prefix: str) -> list[str]:
        """Every key under a prefix."""
        rows = await MemoryStore.scan(self, prefix, prefix_end(prefix), limit=100_000)
        return [row.key for row in rows]


@asynccontextmanager
async def running_catalog(
    store: MemoryStore,
    *,
    defaults: TopicDefaults | None = None,
    brokers: tuple[int, ...] = (1, 2, 3),
) -> AsyncIterator[TopicCatalog]:
    """A started catalog on the store."""
    catalog = TopicCatalog(store, RUNTIME, defaults or TopicDefaults(), lambda: brokers)
    await catalog.start()
    try:
        yield catalog
    finally:
        await catalog.close()


async def partition_streams(store: MemoryStore, name: str) -> list[int]:
    """The stream ids in the stored partition records of a topic, in order."""
    prefix = keys.partitions_prefix(name)
    rows = await MemoryStore.scan(store, prefix, prefix_end(prefix), limit=100_000)
    return [keys.PartitionRecord.decode(row.value).stream_id for row in rows]


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds; fails if it never does."""
    for turn in range(20_000):
        if condition():
            return
        await asyncio.sleep(0 if turn < 10_000 else 0.0005)
    raise AssertionError("the condition never came to hold")
