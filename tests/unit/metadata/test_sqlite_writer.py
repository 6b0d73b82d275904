"""Locks held by others, full queues and disks, cancelled callers."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.metadata.helpers_metadata import NEVER_MS, SqliteHarness

from towpath.metadata.sqlite import writer as writer_module
from towpath.metadata.sqlite.errors import failed_commit
from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import (
    ABSENT,
    ConditionFailed,
    KeyIs,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    VersionConflict,
)

SHORT = SqliteLimits(write_timeout_ms=150, poll_interval_ms=NEVER_MS, queued_writes=8)
LONG = SqliteLimits(write_timeout_ms=20_000, poll_interval_ms=NEVER_MS)


@contextmanager
def lock_file_held(database: Path) -> Iterator[None]:
    """The writers' lock in the hands of somebody else."""
    descriptor = os.open(f"{database}-lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def sqlite_lock_held(database: Path) -> Iterator[None]:
    """SQLite's own write lock in the hands of a program that knows nothing of the lock file."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "metadata.db", SHORT)
    yield harness
    await harness.close()


@pytest.mark.parametrize("held", [lock_file_held, sqlite_lock_held])
async def test_a_lock_held_by_somebody_else_is_a_clear_error(
    harness: SqliteHarness, held: type
) -> None:
    store = await harness.open()
    await store.put("/before", b"")
    with held(harness.path):
        calls = [store.put("/k", b""), store.commit(0, puts=[Put("/k", b"")]), store.probe()]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in outcomes] == [StoreUnavailable] * 3
        assert "lock" in str(outcomes[0])
        assert await store.get("/before") is not None, "reads go on"
        await store.barrier()
    await store.put("/after", b"")
    assert [each.key for each in await store.scan("/", "0")] == ["/after", "/before"]


async def test_opening_a_locked_database_is_a_clear_error(harness: SqliteHarness) -> None:
    with (
        lock_file_held(harness.path),
        pytest.raises(StoreUnavailable, match="locked by another process"),
    ):
        await harness.open()
    store = await harness.open()
    await store.put("/k", b"")


async def test_a_full_queue_refuses_at_once(harness: SqliteHarness) -> None:
    store = await harness.open()
    with lock_file_held(harness.path):
        calls = [asyncio.ensure_future(store.put(f"/{n}", b"")) for n in range(9)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert done == {calls[8]}
        assert isinstance(calls[8].exception(), StoreUnavailable)
        await asyncio.wait(calls)
    assert all(isinstance(call.exception(), StoreUnavailable) for call in calls)
    assert await store.scan("/", "0") == []


async def test_writes_that_waited_together_keep_their_own_fates(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db", LONG)
    store = await harness.open()
    version = await store.put("/k", b"0")
    with lock_file_held(harness.path):
        calls = [
            asyncio.ensure_future(call)
            for call in (
                store.put("/k", b"1", expect=version),
                store.put("/k", b"2", expect=version),
                store.commit(0, puts=[Put("/l", b"")], expect=[KeyIs("/none")]),
                store.put("/m", b"", expect=ABSENT),
                store.delete("/m"),
                store.commit(0, puts=[Put("/n", b"")], expect=[KeyIs("/k", version + 1)]),
            )
        ]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes[0] == version + 1
    assert isinstance(outcomes[1], VersionConflict)
    assert outcomes[1].actual_version == version + 1
    assert isinstance(outcomes[2], ConditionFailed)
    assert outcomes[3:5] == [version + 2, True]
    assert getattr(outcomes[5], "revision", None) == version + 4
    assert [each.key for each in await store.scan("/", "0")] == ["/k", "/n"]
    await harness.close()


async def test_a_cancelled_write_that_waits_does_not_happen(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db", LONG)
    store = await harness.open()
    with lock_file_held(harness.path):
        cancelled = asyncio.ensure_future(store.put("/cancelled", b""))
        kept = asyncio.ensure_future(store.put("/kept", b""))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    await kept
    assert [each.key for each in await store.scan("/", "0")] == ["/kept"]
    await harness.close()


async def test_close_writes_what_is_queued(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db", LONG)
    store = await harness.open()
    calls = [asyncio.ensure_future(store.put(f"/{n}", b"")) for n in range(5)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*calls)
    again = await harness.open()
    assert len(await again.scan("/", "0")) == 5
    await harness.close()


async def set_max_pages(store: SqliteStore, pages: int) -> None:
    """Make the disk look full."""
    statement = f"PRAGMA max_page_count = {pages}"
    await store._writer.submit(lambda tx: tx.connection.execute(statement).fetchall())


async def test_a_full_disk_changes_nothing_and_passes(harness: SqliteHarness) -> None:
    store = await harness.open()
    await store.put("/before", b"")
    await set_max_pages(store, 1)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.commit(0, puts=[Put("/small", b""), Put("/large", bytes(1_000_000))])
    assert [each.key for each in await store.scan("/", "0")] == ["/before"]
    await set_max_pages(store, 1_000_000)
    assert await store.put("/large", bytes(1_000_000)) == 2


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_FULL, StoreUnavailable),
        (sqlite3.SQLITE_BUSY, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, OutcomeUnknown),
        (sqlite3.SQLITE_IOERR_WRITE, OutcomeUnknown),
        (None, OutcomeUnknown),
    ],
)
def test_a_failed_commit_is_unknown_unless_surely_not_applied(
    code: int | None, expected: type[Exception]
) -> None:
    error = sqlite3.OperationalError("failed")
    if code is not None:
        error.sqlite_errorcode = code
        error.sqlite_errorname = "NAME"
    assert type(failed_commit(error)) is expected


async def test_a_failing_commit_answers_every_caller_of_the_group(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db", LONG)
    store = await harness.open()
    writer = store._writer
    real_commit = writer._commit
    writer._commit = lambda connection: OutcomeUnknown("lost")  # type: ignore[method-assign]
    with lock_file_held(harness.path):
        calls = [asyncio.ensure_future(store.put(f"/{n}", b"")) for n in range(3)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in outcomes] == [OutcomeUnknown] * 3
    assert len({id(each) for each in outcomes}) == 3
    writer._commit = real_commit  # type: ignore[method-assign]
    assert await store.scan("/", "0") == []
    await store.put("/after", b"")
    await harness.close()


async def test_close_does_not_hang_on_a_lock(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "CLOSE_SLACK_MS", 1)
    store = await harness.open()
    session = await store.open_session(10_000)
    await store.put("/e", b"", session=session)
    with lock_file_held(harness.path):
        waiting = asyncio.ensure_future(store.put("/k", b""))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await waiting
        assert store._writer._thread.is_alive()
    await asyncio.to_thread(store._writer._thread.join)
    again = await harness.open()
    assert [each.key for each in await again.scan("/", "0")] == ["/e"]
    harness.clock.time_ms += 10_001
    await again.tend_sessions()
    assert await again.scan("/", "0") == []


async def test_a_cancelled_open_leaves_no_thread(harness: SqliteHarness) -> None:
    with lock_file_held(harness.path):
        opening = asyncio.ensure_future(harness.open())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        ours = [each for each in threading.enumerate() if each.name == "towpath-sqlite"]
    for thread in ours:
        await asyncio.to_thread(thread.join)


async def test_the_log_is_checkpointed_while_the_store_is_open(tmp_path: Path) -> None:
    limits = SqliteLimits(poll_interval_ms=NEVER_MS, checkpoint_rows=50)
    harness = SqliteHarness(tmp_path / "metadata.db", limits)
    store = await harness.open()
    before = harness.path.stat().st_size
    for n in range(60):
        await store.put(f"/{n}", bytes(4000))
    await store.probe()
    assert harness.path.stat().st_size > before + 50 * 4000
    await harness.close()


async def test_the_lock_is_free_by_the_time_a_caller_is_answered(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: list[bool] = []

    def look(path: Path) -> None:
        descriptor = os.open(f"{path}-lock", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free.append(True)
        except BlockingIOError:
            free.append(False)
        finally:
            os.close(descriptor)

    store = await harness.open()
    real = writer_module.Writer._call_loop

    def call_loop(self: writer_module.Writer, function: Callable[..., None], *args: Any) -> None:
        look(harness.path)
        real(self, function, *args)

    monkeypatch.setattr(writer_module.Writer, "_call_loop", call_loop)
    await store.put("/k", b"")
    with pytest.raises(VersionConflict):
        await store.put("/k", b"", expect=ABSENT)
    assert free == [True, True]
