"""How the contract suite reaches a metadata store, and what its tests share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from towpath.metadata.store import Append, Change, ChangeSet, MetadataStore

WAIT_S = 20
TTL_MS = 10_000


class StoreHarness(ABC):
    """How the suite reaches the store under test."""

    @abstractmethod
    async def open(self) -> MetadataStore:
        """One more client of the same data; the harness closes it after the test."""

    @abstractmethod
    async def pass_time(self, ms: int, *, awake: Sequence[MetadataStore]) -> None:
        """Let time pass for sessions, while only the `awake` clients do background work."""


class Recorder:
    """A watch callback that keeps what it was told."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.resyncs = 0
        self._told = asyncio.Event()

    def __call__(self, change_set: ChangeSet) -> None:
        self.changes += change_set.changes
        self.resyncs += change_set.resync
        self._told.set()

    async def until(self, count: int) -> None:
        """Wait for at least `count` changes."""
        async with asyncio.timeout(WAIT_S):
            while len(self.changes) < count:
                self._told.clear()
                await self._told.wait()


def append(stream_id: int, records: int = 1, size_bytes: int = 10, value: bytes = b"v") -> Append:
    """An append with defaults."""
    return Append(stream_id, records, size_bytes, value)


async def everything(store: MetadataStore) -> dict[str, tuple[bytes, int]]:
    """The whole content."""
    found = await store.scan("", "\U0010ffff", limit=100_000)
    return {each.key: (each.value, each.version) for each in found}
