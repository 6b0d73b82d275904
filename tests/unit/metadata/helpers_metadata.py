"""A clock that tests move, and harnesses of the contract suite."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.contract.metadata_store_harness import StoreHarness

from towpath.metadata.memory import MemoryStore
from towpath.metadata.memory_state import MemoryState
from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import MetadataStore
from towpath.runtime import InlineOffload, Runtime

NEVER_MS = 3_600_000


class ManualClock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time_ms = 1_000_000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


def manual_runtime(clock: ManualClock) -> Runtime:
    """A runtime on the clock."""
    return Runtime(clock=clock, random=random.SystemRandom(), offload=InlineOffload())


class SqliteHarness(StoreHarness):
    """Stores on one database file, whose background work runs only when told to."""

    def __init__(self, path: Path, limits: SqliteLimits | None = None) -> None:
        self.path = path
        self.clock = ManualClock()
        self.limits = limits if limits is not None else SqliteLimits(poll_interval_ms=NEVER_MS)
        self.opened: list[SqliteStore] = []

    async def open(self) -> SqliteStore:
        store = await SqliteStore.open(self.path, manual_runtime(self.clock), self.limits)
        self.opened.append(store)
        return store

    async def pass_time(self, ms: int, *, awake: Sequence[MetadataStore]) -> None:
        self.clock.time_ms += ms
        for store in awake:
            assert isinstance(store, SqliteStore)
            await store.tend_sessions()

    async def close(self) -> None:
        for store in self.opened:
            await store.close()


class MemoryHarness(StoreHarness):
    """Stores on one shared state."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = MemoryState(self.clock)

    async def open(self) -> MemoryStore:
        return MemoryStore(manual_runtime(self.clock), self.state)

    async def pass_time(self, ms: int, *, awake: Sequence[MetadataStore]) -> None:
        self.clock.time_ms += ms
        for store in awake:
            assert isinstance(store, MemoryStore)
            store.tend_sessions()
        self.state.expire_silent()
