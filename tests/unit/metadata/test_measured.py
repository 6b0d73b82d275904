"""The measuring wrapper."""

from __future__ import annotations

import pytest
from tests.unit.metadata.helpers_metadata import MemoryHarness

from towpath.metadata.measured import MeasuredStore
from towpath.metadata.store import (
    ABSENT,
    ConditionFailed,
    KeyIs,
    Put,
    StoreUnavailable,
    Tail,
    VersionConflict,
)
from towpath.observe.metrics import Metrics


def value(metrics: Metrics, name: str, operation: str) -> float:
    found = metrics.registry.get_sample_value(f"towpath_metadata_{name}", {"operation": operation})
    assert found is not None
    return found


async def test_operations_are_counted_by_kind() -> None:
    metrics = Metrics()
    store = MeasuredStore(await MemoryHarness().open(), metrics)
    version = await store.put("/k", b"v")
    found = await store.get("/k")
    assert found is not None
    assert (found.value, found.version) == (b"v", version)
    assert await store.tails([1]) == [Tail(0, 0)]
    assert [each.key for each in await store.scan("/", "0")] == ["/k"]
    assert await store.first_above("/", "0") == found
    assert await store.last("/", "0") == found
    await store.commit(0, puts=[Put("/l", b"")])
    assert await store.delete("/k")
    counts = {
        operation: value(metrics, "latency_seconds_count", operation)
        for operation in ("get", "put", "delete", "scan", "txn")
    }
    assert counts == {"get": 2, "put": 1, "delete": 1, "scan": 3, "txn": 1}


async def test_errors_are_counted_but_lost_races_are_not() -> None:
    metrics = Metrics()
    store = MeasuredStore(await MemoryHarness().open(), metrics)
    await store.put("/k", b"v")
    with pytest.raises(VersionConflict):
        await store.put("/k", b"v", expect=ABSENT)
    with pytest.raises(ConditionFailed):
        await store.commit(0, expect=[KeyIs("/none")])
    assert value(metrics, "errors_total", "put") == 0
    assert value(metrics, "errors_total", "txn") == 0
    assert value(metrics, "latency_seconds_count", "put") == 2
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.get("/k")
    assert value(metrics, "errors_total", "get") == 1
    assert value(metrics, "latency_seconds_count", "get") == 1


async def test_watches_and_sessions_pass_through() -> None:
    store = MeasuredStore(await MemoryHarness().open(), Metrics())
    keys: list[str] = []
    store.watch("/", lambda changes: keys.extend(change.key for change in changes.changes))
    session = await store.open_session(10_000)
    await store.put("/e", b"", session=session)
    await session.close()
    await store.barrier()
    await store.probe()
    assert keys == ["/e", "/e"]
    assert store.supports_conditions
    assert store.domain_count == 1
