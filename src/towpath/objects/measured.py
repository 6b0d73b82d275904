"""An object store that tells its metrics what it does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

from towpath.objects.store import (
    Buffer,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
)
from towpath.observe.metrics import Metrics

OPERATIONS = ("read", "write", "delete", "list", "stat")


class MeasuredObjectStore(ObjectStore):
    """Passes every call on and counts its time, bytes and failures by operation.

    That an object is absent, or there already, is an answer and not a failure of the store.
    """

    def __init__(
        self, inner: ObjectStore, metrics: Metrics, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self._inner = inner
        self.reads_are_cached = inner.reads_are_cached
        self._timer = timer
        self._seconds = {name: metrics.object_seconds.labels(name) for name in OPERATIONS}
        self._errors = {name: metrics.object_errors.labels(name) for name in OPERATIONS}
        self._bytes = {name: metrics.object_bytes.labels(name) for name in ("read", "write")}

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        with self._measure("write"):
            await self._inner.put(path, parts)
        self._bytes["write"].inc(sum(memoryview(part).nbytes for part in parts))

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        with self._measure("read"):
            content = await self._inner.read(path, offset, length)
        self._bytes["read"].inc(length)
        return content

    async def stat(self, path: str) -> ObjectInfo:
        with self._measure("stat"):
            return await self._inner.stat(path)

    async def delete(self, path: str) -> None:
        with self._measure("delete"):
            await self._inner.delete(path)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        # Only the waits for the store count, not what the caller does between two objects.
        listing = self._inner.list(prefix)
        seconds = 0.0
        try:
            while True:
                started = self._timer()
                try:
                    info = await anext(listing)
                except StopAsyncIteration:
                    return
                finally:
                    seconds += self._timer() - started
                yield info
        except Exception:
            self._errors["list"].inc()
            raise
        finally:
            self._seconds["list"].observe(seconds)

    async def probe(self) -> None:
        await self._inner.probe()

    async def close(self) -> None:
        await self._inner.close()

    @contextmanager
    def _measure(self, operation: str) -> Iterator[None]:
        started = self._timer()
        try:
            yield
        except (ObjectNotFound, ObjectExists):
            raise
        except Exception:
            self._errors[operation].inc()
            raise
        finally:
            self._seconds[operation].observe(self._timer() - started)
