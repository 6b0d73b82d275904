"""Scans of many keys are snapshots of their moment."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from tests.unit.metadata.helpers_metadata import SqliteHarness

from towpath.metadata.sqlite.long_scan import SLICE_KEYS
from towpath.metadata.store import Put

KEYS = SLICE_KEYS * 5


async def test_a_long_scan_is_a_snapshot_and_the_next_one_is_fresh(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    store = await harness.open()
    keys = [f"/k/{n:05d}" for n in range(KEYS)]
    await store.commit(0, puts=[Put(key, b"old") for key in keys])
    scan = asyncio.ensure_future(store.scan("/k/", "/k0", limit=10_000))
    await asyncio.sleep(0)
    # A write that gives the event loop no turn, so that the scan is still in its middle.
    assert write_elsewhere(harness.path, keys[-1]) == 1
    assert not scan.done()
    fresh = asyncio.ensure_future(store.scan("/k/", "/k0", limit=10_000))
    found = await store.get(keys[-1])
    assert found is not None
    assert found.value == b"new"
    assert {each.value for each in await scan} == {b"old"}
    assert (await fresh)[-1].value == b"new"
    await harness.close()


def write_elsewhere(path: Path, key: str) -> int:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute("UPDATE kv SET value = ? WHERE key = ?", (b"new", key)).rowcount
    finally:
        connection.close()


async def test_a_cancelled_scan_leaves_the_next_one_fresh(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    store = await harness.open()
    await store.commit(0, puts=[Put(f"/k/{n:05d}", b"") for n in range(KEYS)])
    scan = asyncio.ensure_future(store.scan("/k/", "/k0", limit=10_000))
    await asyncio.sleep(0)
    scan.cancel()
    await asyncio.wait([scan])
    assert scan.cancelled()
    await store.put("/k/new", b"")
    assert len(await store.scan("/k/", "/k0", limit=10_000)) == KEYS + 1
    await harness.close()
