"""An object store in a dictionary, for unit tests and the simulation.

Deterministic: no threads, and every call completes without waiting. Several brokers of one process
may share one store, which is how the simulation models an object store that outlives them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from towpath.objects.paths import check_path
from towpath.objects.store import (
    Buffer,
    ObjectExists,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreError,
)
from towpath.runtime import Runtime


class MemoryObjectStore(ObjectStore):
    """Objects by path. `close` keeps them: the store is the durable part of a simulated crash."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._objects: dict[str, tuple[bytes, int]] = {}

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        if check_path(path) in self._objects:
            raise ObjectExists(path)
        self._objects[path] = (b"".join(parts), self._clock.now_ms())

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        content, _ = self._find(path)
        if offset < 0 or length < 0 or offset + length > len(content):
            raise ObjectStoreError(
                f"{path}: bytes [{offset}, {offset + length}) lie outside its {len(content)}"
            )
        return memoryview(content)[offset : offset + length]

    async def stat(self, path: str) -> ObjectInfo:
        content, modified_at_ms = self._find(path)
        return ObjectInfo(path, len(content), modified_at_ms)

    async def delete(self, path: str) -> None:
        self._objects.pop(check_path(path), None)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for path in sorted(path for path in self._objects if path.startswith(prefix)):
            found = self._objects.get(path)
            if found is not None:  # Deleted while the caller looked at the one before.
                yield ObjectInfo(path, len(found[0]), found[1])

    async def probe(self) -> None:
        """Nothing can fail here."""

    async def close(self) -> None:
        """Nothing to release; the objects stay."""

    def _find(self, path: str) -> tuple[bytes, int]:
        found = self._objects.get(check_path(path))
        if found is None:
            raise ObjectNotFound(path)
        return found
