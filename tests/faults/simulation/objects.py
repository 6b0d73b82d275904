"""The object store that outlives all brokers, and each broker's failing way to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.ledger import Ledger
from tests.faults.simulation.line import Line
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.rates import Rates
from tests.faults.simulation.stores import now

from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import Buffer, ObjectExists, ObjectInfo, ObjectStore, ObjectStoreError
from towpath.runtime import Runtime

TWICE = 0.02
"""How often a put is repeated by the client library that lost its first answer."""


class SharedObjects(MemoryObjectStore):
    """All objects; the ledger is asked before one goes."""

    ledger: Ledger

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.deleted_count = 0

    def content(self, path: str) -> bytes | None:
        """An object's bytes, None if it does not exist."""
        found = self._objects.get(path)
        return None if found is None else found[0]

    def paths(self) -> set[str]:
        """Every object."""
        return set(self._objects)

    async def delete(self, path: str) -> None:
        if path in self._objects:
            self.ledger.deleting(path)
            self.deleted_count += 1
        await super().delete(path)

    def all_under(self, prefix: str) -> list[ObjectInfo]:
        """A listing of one moment."""
        return [now(self.stat(path)) for path in sorted(self._objects) if path.startswith(prefix)]


class SimObjects(ObjectStore):
    """One broker's client of the shared objects."""

    def __init__(
        self, loop: SimLoop, node: Node, shared: SharedObjects, rates: Rates, chance: Chance
    ) -> None:
        self._shared = shared
        self._rates = rates
        self._chance = chance
        self.line = Line(
            loop, node, chance.child("line"), lambda: rates.objects, ObjectStoreError,
            ObjectStoreError,
        )  # fmt: skip

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        content = [b"".join(parts)]
        twice = self._rates.objects.lost > 0 and self._chance.happens(TWICE)

        def effect() -> None:
            now(self._shared.put(path, content))
            if twice:
                raise ObjectExists(path)

        await self.line.call("put object", effect, changes=True)

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        return await self.line.call(
            "read object", lambda: now(self._shared.read(path, offset, length)), changes=False
        )

    async def stat(self, path: str) -> ObjectInfo:
        return await self.line.call(
            "stat object", lambda: now(self._shared.stat(path)), changes=False
        )

    async def delete(self, path: str) -> None:
        await self.line.call("delete object", lambda: now(self._shared.delete(path)), changes=True)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        found = await self.line.call(
            "list objects", lambda: self._shared.all_under(prefix), changes=False
        )
        for info in found:
            yield info

    async def probe(self) -> None:
        await self.line.call("probe objects", lambda: None, changes=False)

    async def close(self) -> None:
        """Nothing to release."""
