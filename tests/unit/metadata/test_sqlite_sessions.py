"""Sessions across boots, and the timers that look after them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.metadata_store_harness import TTL_MS, Recorder
from tests.unit.metadata.helpers_metadata import SqliteHarness

from towpath.metadata.sqlite import sessions
from towpath.metadata.sqlite.boot import boot_id
from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.store import SqliteStore
from towpath.runtime import inline_runtime


def test_the_boot_id_is_stable() -> None:
    assert boot_id()
    assert boot_id() == boot_id()


async def test_a_session_of_another_boot_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "boot_id", lambda: "the boot before")
        old = await harness.open()
    session = await old.open_session(TTL_MS)
    await old.put("/e", b"", session=session)
    new = await harness.open()
    await new.tend_sessions()
    assert await new.get("/e") is None
    await harness.close()


async def test_a_clock_that_went_back_means_a_restart(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    old, new = await harness.open(), await harness.open()
    session = await old.open_session(TTL_MS)
    await old.put("/e", b"", session=session)
    harness.clock.time_ms = 5
    await new.tend_sessions()
    assert await new.get("/e") is None
    await harness.close()


async def test_the_timers_expire_a_dead_holder_s_keys(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    dead = await harness.open()
    session = await dead.open_session(TTL_MS)
    await dead.put("/e", b"", session=session)
    harness.limits = SqliteLimits(poll_interval_ms=5)
    live = await harness.open()
    recorder = Recorder()
    live.watch("/e", recorder)
    harness.clock.time_ms += TTL_MS + 1
    await recorder.until(1)
    assert recorder.changes[0].version is None
    await harness.close()


async def seen_ms(store: SqliteStore) -> int:
    query = "SELECT seen_ms FROM sessions"
    found: int = await store._writer.submit(lambda tx: tx.connection.execute(query).fetchone()[0])
    return found


async def test_the_timers_renew_a_live_holder_s_session(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db", SqliteLimits(poll_interval_ms=5))
    store = await harness.open()
    await store.open_session(TTL_MS)
    opened_ms = await seen_ms(store)
    harness.clock.time_ms += TTL_MS // 2
    async with asyncio.timeout(20):
        while await seen_ms(store) == opened_ms:
            pass  # Each look is a turn of the loop, in which the timer may run.
    assert await seen_ms(store) == opened_ms + TTL_MS // 2
    await harness.close()


async def test_keep_alives_are_not_written_more_often_than_needed(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    store = await harness.open()
    await store.open_session(TTL_MS)
    opened_ms = await seen_ms(store)
    harness.clock.time_ms += TTL_MS // 4
    await store.tend_sessions()
    assert await seen_ms(store) == opened_ms
    await harness.close()


HOLDER = """
import asyncio, os, sys
from pathlib import Path
from towpath.metadata.sqlite.store import SqliteStore
from towpath.runtime import inline_runtime


async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]), inline_runtime())
    session = await store.open_session(300_000)
    await store.put("/e", b"", session=session)
    print("held", flush=True)
    await asyncio.sleep(600)


asyncio.run(main())
"""


async def test_the_keys_of_a_killed_process_go_at_once_and_of_a_stopped_one_stay(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.db"
    holder = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    store = await SqliteStore.open(path, inline_runtime(), SqliteLimits(poll_interval_ms=60_000))
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        await store.tend_sessions()
        assert await store.get("/e") is not None
        holder.kill()
        holder.wait()
        await store.tend_sessions()
        assert await store.get("/e") is None
    finally:
        holder.kill()
        holder.communicate()
        await store.close()
    assert list(path.with_name("metadata.db.alive").iterdir()) == []
