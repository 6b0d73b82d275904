"""Opening stores by URL, and the metrics they feed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from towpath.objects.measured import MeasuredObjectStore
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.open import open_object_store
from towpath.objects.store import Buffer, ObjectInfo, ObjectNotFound, ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
async def test_a_directory_by_path_or_url(tmp_path: Path, form: str) -> None:
    directory = tmp_path / "with space"
    url = form.format(str(directory).replace(" ", "%20") if "://" in form else directory)
    store = open_object_store(url, inline_runtime(1), Metrics())
    await store.put("a/b", [b"1"])
    assert (directory / "a/b").read_bytes() == b"1"
    await store.close()


async def test_memory() -> None:
    store = open_object_store("memory://", inline_runtime(1), Metrics())
    await store.put("a/b", [b"1"])
    assert bytes(await store.read("a/b", 0, 1)) == b"1"
    await store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://bucket/prefix", "unknown object store 's4://bucket/prefix'"),
        ("file://host/path", "names no directory"),
        ("file://", "names no directory"),
        ("", "empty"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_object_store(url, inline_runtime(1), Metrics())


class BrokenStore(MemoryObjectStore):
    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        raise ObjectStoreError("no")

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        yield ObjectInfo("a", 1, 1)
        raise ObjectStoreError("no")


def value(metrics: Metrics, name: str, operation: str) -> float:
    return metrics.registry.get_sample_value(name, {"operation": operation}) or 0.0


async def test_operations_are_counted_and_timed() -> None:
    metrics = Metrics()
    ticks = iter(range(1000))
    store = MeasuredObjectStore(
        MemoryObjectStore(inline_runtime(1)), metrics, timer=lambda: next(ticks) / 100
    )
    await store.put("a", [b"12", memoryview(b"345")])
    await store.read("a", 1, 2)
    await store.stat("a")
    assert [info.path async for info in store.list("")] == ["a"]
    await store.delete("a")
    with pytest.raises(ObjectNotFound):
        await store.read("a", 0, 1)
    assert value(metrics, "towpath_object_store_bytes_total", "write") == 5
    assert value(metrics, "towpath_object_store_bytes_total", "read") == 2
    for operation, count in [("write", 1), ("read", 2), ("stat", 1), ("list", 1), ("delete", 1)]:
        assert value(metrics, "towpath_object_store_latency_seconds_count", operation) == count
        assert value(metrics, "towpath_object_store_errors_total", operation) == 0
    assert value(metrics, "towpath_object_store_latency_seconds_sum", "write") == pytest.approx(
        0.01
    )


async def test_failures_are_counted() -> None:
    metrics = Metrics()
    store = MeasuredObjectStore(BrokenStore(inline_runtime(1)), metrics)
    with pytest.raises(ObjectStoreError):
        await store.put("a", [b"1"])
    with pytest.raises(ObjectStoreError):
        _ = [info async for info in store.list("")]
    for operation in ("write", "list"):
        assert value(metrics, "towpath_object_store_errors_total", operation) == 1
    assert value(metrics, "towpath_object_store_bytes_total", "write") == 0
