"""The change feed: trimming, wake-ups, the poll beneath them, and the tail cache."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.metadata_store_harness import Recorder, append
from tests.unit.metadata.helpers_metadata import NEVER_MS, SqliteHarness

from towpath.metadata.keys import streams
from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.sqlite.tail_cache import TailCache
from towpath.metadata.sqlite.wakeup import Wakeup, runtime_directory
from towpath.metadata.store import Change, Tail


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SqliteHarness]:
    limits = SqliteLimits(poll_interval_ms=NEVER_MS, changes_kept=20)
    harness = SqliteHarness(tmp_path / "metadata.db", limits)
    yield harness
    await harness.close()


def sleep_through_wake_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores opened from now on have no socket."""

    def no_socket(_: Wakeup) -> socket.socket:
        raise OSError("no socket in this test")

    monkeypatch.setattr(Wakeup, "_bind", no_socket)


async def test_own_changes_come_after_those_of_others_that_were_earlier(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep_through_wake_ups(monkeypatch)
    store, other = await harness.open(), await harness.open()
    recorder = Recorder()
    store.watch("/", recorder)
    for _ in range(3):
        await other.put("/other", b"")
        await store.put("/own", b"")
    assert [change.key for change in recorder.changes] == ["/other", "/own"] * 3
    versions = [change.version for change in recorder.changes]
    assert versions == [1, 2, 3, 4, 5, 6]


async def test_a_reader_behind_the_trim_gets_a_resync(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open()
    sleep_through_wake_ups(monkeypatch)
    late = await harness.open()
    recorder = Recorder()
    late.watch("/w/", recorder)
    assert await late.tails([1]) == [Tail(0, 0)]
    for n in range(50):
        await store.put("/w/k", b"%d" % n)
    await store.commit(0, appends=[append(1)])
    assert await late.tails([1]) == [Tail(1, 10)]
    assert recorder.resyncs == 1
    assert 0 < len(recorder.changes) < 50
    version = await store.put("/w/k", b"")
    await late.barrier()
    assert recorder.resyncs == 1
    assert recorder.changes[-1] == Change("/w/k", version)


async def test_the_feed_is_bounded(harness: SqliteHarness) -> None:
    store = await harness.open()
    for _ in range(60):
        await store.put("/k", b"")
    rows = await store._writer.submit(
        lambda tx: tx.connection.execute("SELECT count(*), max(revision) FROM changes").fetchone()
    )
    assert rows[1] == 60
    assert 20 <= rows[0] <= 22


async def test_revisions_go_on_after_a_restart(harness: SqliteHarness) -> None:
    store = await harness.open()
    for _ in range(30):
        version = await store.put("/k", b"")
    await store.delete("/k")
    await store.close()
    store = await harness.open()
    assert await store.put("/k", b"") == version + 2


async def test_the_poll_finds_what_no_wake_up_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long = tmp_path / ("long" * 30)
    too_long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(too_long))
    harness = SqliteHarness(tmp_path / "metadata.db", SqliteLimits(poll_interval_ms=10))
    store, other = await harness.open(), await harness.open()
    recorder = Recorder()
    other.watch("/", recorder)
    await store.put("/k", b"")
    await recorder.until(1)
    await harness.close()
    assert not any(runtime_directory(harness.path).parent.iterdir())


async def test_sockets_are_private_and_removed(harness: SqliteHarness) -> None:
    store, other = await harness.open(), await harness.open()
    directory = runtime_directory(harness.path)
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert len(os.listdir(directory)) == 2
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(directory / "1-dead.sock"))
    dead.close()
    await store.put("/k", b"")
    await other.put("/k", b"")
    assert "1-dead.sock" not in os.listdir(directory)
    await store.close()
    await other.close()
    assert not directory.exists()


async def test_a_socket_whose_queue_is_full_holds_nobody_up(harness: SqliteHarness) -> None:
    store = await harness.open()
    deaf = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path = runtime_directory(harness.path) / "1-deaf.sock"
    deaf.bind(str(path))
    await asyncio.gather(*(store.put(f"/{n}", b"") for n in range(700)))
    for n in range(40):
        await store.put(f"/{n}", b"")
    deaf.close()
    path.unlink(missing_ok=True)


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(st.lists(KEYS), st.lists(KEYS), st.integers(1, 2**62))
def test_revisions_round_trip(puts: list[str], deletes: list[str], number: int) -> None:
    revision = Revision.of(number, puts, deletes)
    if puts or deletes:
        assert Revision.decode(number, revision.encode()) == revision


class TestTailCache:
    def test_the_least_recently_used_stream_leaves(self) -> None:
        cache = TailCache(2)
        cache.put(1, Tail(1, 1), 1)
        cache.put(2, Tail(2, 2), 1)
        assert cache.get(1) == Tail(1, 1)
        cache.put(3, Tail(3, 3), 1)
        assert cache.get(2) is None
        assert cache.get(1) == Tail(1, 1)
        assert cache.get(3) == Tail(3, 3)

    def test_revisions_that_were_read_already_are_not_applied(self) -> None:
        cache = TailCache(2)
        cache.put(1, Tail(0, 0), 7)
        cache.apply([Revision.of(7, [streams.index_entry(1, 5, 5)], [])])
        assert cache.get(1) == Tail(0, 0)
        cache.apply([Revision.of(8, [streams.index_entry(1, 5, 5)], [])])
        assert cache.get(1) == Tail(5, 5)
        cache.apply([Revision.of(9, ["/other"], [streams.index_entry(1, 4, 4)])])
        assert cache.get(1) == Tail(5, 5)
        cache.apply([Revision.of(10, [], [streams.index_entry(1, 5, 5)])])
        assert cache.get(1) is None

    def test_one_revision_may_put_and_delete_several_entries(self) -> None:
        cache = TailCache(2)
        cache.put(1, Tail(0, 0), 1)
        ends = [streams.index_entry(1, end, 10) for end in (1, 2, 3)]
        cache.apply([Revision.of(2, ends, [])])
        assert cache.get(1) == Tail(3, 10)
        cache.apply([Revision.of(3, ends[:2], ends[2:])])
        assert cache.get(1) is None

    def test_streams_nobody_asked_for_are_not_kept(self) -> None:
        cache = TailCache(2)
        cache.apply([Revision.of(1, [streams.index_entry(9, 5, 5)], [])])
        assert cache.get(9) is None
