"""What the memory store has of its own: timers, bounded deliveries and crashes."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.metadata_store_harness import Recorder
from tests.unit.metadata.helpers_metadata import MemoryHarness

from towpath.metadata import memory
from towpath.metadata.memory import MemoryStore
from towpath.metadata.memory_state import MemoryState
from towpath.metadata.rules import MIN_SESSION_TTL_MS
from towpath.metadata.store import Change, ChangeSet, StoreUnavailable
from towpath.runtime import inline_runtime


async def test_timers_renew_the_living_and_expire_the_crashed() -> None:
    runtime = inline_runtime(1)
    state = MemoryState(runtime.clock)
    live, crashed = MemoryStore(runtime, state), MemoryStore(runtime, state)
    recorder = Recorder()
    live.watch("/", recorder)
    sessions = [await store.open_session(MIN_SESSION_TTL_MS) for store in (live, crashed)]
    await live.put("/live", b"", session=sessions[0])
    await crashed.put("/crashed", b"", session=sessions[1])
    crashed.crash()
    with pytest.raises(StoreUnavailable):
        await crashed.get("/live")
    assert await live.get("/crashed") is not None, "a crash is noticed only by its silence"
    await recorder.until(3)
    assert recorder.changes[2] == Change("/crashed", None)
    assert sessions[1].expired
    assert not sessions[0].expired
    assert await live.get("/live") is not None
    await live.close()


async def test_a_store_that_is_told_too_late_gets_a_resync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MAX_PENDING_REVISIONS", 5)
    harness = MemoryHarness()
    store, other = await harness.open(), await harness.open()
    recorder = Recorder()
    other.watch("/", recorder)
    for n in range(7):
        await store.put(f"/{n}", b"")
    assert recorder.changes == []
    await other.barrier()
    assert recorder.resyncs == 1
    assert [change.key for change in recorder.changes] == ["/6"]
    await store.put("/after", b"")
    await other.barrier()
    assert recorder.resyncs == 1


async def test_other_stores_are_told_at_the_next_turn_of_the_loop() -> None:
    harness = MemoryHarness()
    store, other = await harness.open(), await harness.open()
    told: list[str] = []

    def note(name: str, changes: ChangeSet) -> None:
        told.extend(f"{name}{change.key}" for change in changes.changes)

    store.watch("/", lambda changes: note("own", changes))
    other.watch("/", lambda changes: note("other", changes))
    await store.put("/a", b"")
    await store.put("/b", b"")
    assert told == ["own/a", "own/b"]
    await asyncio.sleep(0)
    assert told == ["own/a", "own/b", "other/a", "other/b"]


async def test_stores_without_a_shared_state_are_apart() -> None:
    runtime = inline_runtime(1)
    one, other = MemoryStore(runtime), MemoryStore(runtime)
    await one.put("/k", b"")
    assert await other.get("/k") is None
