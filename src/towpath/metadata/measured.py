"""Counts and times the operations of any metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from towpath.metadata.store import (
    ANY,
    Append,
    Committed,
    Condition,
    ConditionFailed,
    Expect,
    KeyValue,
    MetadataError,
    MetadataStore,
    Put,
    Session,
    Tail,
    VersionConflict,
    Watch,
    WatchCallback,
)
from towpath.observe.metrics import Metrics

R = TypeVar("R")


class MeasuredStore(MetadataStore):
    """A store that behaves as `store` does and feeds the broker's metrics.

    A lost compare-and-set is an answer and counts as no error. Closing it closes `store`.
    """

    def __init__(self, store: MetadataStore, metrics: Metrics) -> None:
        self._store = store
        self.supports_conditions = store.supports_conditions
        self.domain_count = store.domain_count
        operations = ("get", "put", "delete", "scan", "txn")
        # Looking a label up costs more than the observation.
        self._seconds = {name: metrics.metadata_seconds.labels(name) for name in operations}
        self._errors = {name: metrics.metadata_errors.labels(name) for name in operations}

    async def _measured(self, operation: str, work: Awaitable[R]) -> R:
        time = asyncio.get_running_loop().time
        started_s = time()
        try:
            return await work
        except (VersionConflict, ConditionFailed):
            raise
        except MetadataError:
            self._errors[operation].inc()
            raise
        finally:
            self._seconds[operation].observe(time() - started_s)

    async def get(self, key: str) -> KeyValue | None:
        return await self._measured("get", self._store.get(key))

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        work = self._store.put(key, value, expect=expect, session=session)
        return await self._measured("put", work)

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        return await self._measured("delete", self._store.delete(key, expect=expect))

    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        return await self._measured("scan", self._store.scan(start, end, limit=limit))

    async def first_above(self, key: str, end: str) -> KeyValue | None:
        return await self._measured("scan", self._store.first_above(key, end))

    async def last(self, start: str, end: str) -> KeyValue | None:
        return await self._measured("scan", self._store.last(start, end))

    async def tails(self, stream_ids: Sequence[int]) -> list[Tail]:
        return await self._measured("get", self._store.tails(stream_ids))

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        work = self._store.commit(
            domain, appends=appends, puts=puts, deletes=deletes, expect=expect
        )
        return await self._measured("txn", work)

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        return self._store.watch(prefix, callback)

    async def barrier(self) -> None:
        await self._store.barrier()

    async def open_session(self, ttl_ms: int) -> Session:
        return await self._store.open_session(ttl_ms)

    async def probe(self) -> None:
        await self._store.probe()

    async def close(self) -> None:
        await self._store.close()
