"""What every metadata store must do with watches and sessions."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.metadata_store_harness import (
    TTL_MS,
    Recorder,
    StoreHarness,
    everything,
)

from towpath.metadata.store import (
    ABSENT,
    Change,
    ChangeSet,
    MetadataStore,
    Put,
    Session,
    SessionExpired,
    VersionConflict,
)


class WatchContract:
    """Watches and the barrier."""

    async def test_a_writer_s_watchers_know_before_it_does(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        recorder = Recorder()
        store.watch("/w/", recorder)
        before = await other.put("/w/a", b"")
        version = await store.put("/w/b", b"")
        assert recorder.changes == [Change("/w/a", before), Change("/w/b", version)]
        await store.delete("/w/a")
        assert recorder.changes[2:] == [Change("/w/a", None)]
        done = await store.commit(0, puts=[Put("/w/c", b""), Put("/x", b"")], deletes=["/w/b"])
        assert recorder.changes[3:] == [Change("/w/c", done.revision), Change("/w/b", None)]

    async def test_watchers_elsewhere_are_woken(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        recorder = Recorder()
        other.watch("/w/", recorder)
        version = await store.put("/w/a", b"")
        await recorder.until(1)
        assert recorder.changes == [Change("/w/a", version)]

    async def test_a_barrier_brings_watchers_up_to_date(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        recorder = Recorder()
        other.watch("/w/", recorder)
        for n in range(1, 30):
            await store.put("/w/a", b"%d" % n)
            await other.barrier()
            assert len(recorder.changes) == n

    async def test_no_change_is_lost_or_out_of_order(self, harness: StoreHarness) -> None:
        clients = [await harness.open() for _ in range(3)]
        recorders = [Recorder() for _ in clients]
        for client, recorder in zip(clients, recorders, strict=True):
            client.watch("/w/", recorder)

        async def write_many(client: MetadataStore, name: str) -> None:
            for n in range(15):
                await client.put(f"/w/{name}", b"%d" % n)
                await client.put(f"/elsewhere/{name}", b"")

        writers = (write_many(clients[n % 3], str(n)) for n in range(6))
        await asyncio.gather(*writers)
        for client, recorder in zip(clients, recorders, strict=True):
            await client.barrier()
            assert recorder.resyncs == 0
            assert len(recorder.changes) == 6 * 15
            versions = [change.version or 0 for change in recorder.changes]
            assert versions == sorted(set(versions))
            assert recorder.changes == recorders[0].changes

    async def test_a_cancelled_watch_is_silent(self, harness: StoreHarness) -> None:
        store = await harness.open()
        cancelled, kept = Recorder(), Recorder()
        watch = store.watch("/", cancelled)
        store.watch("/", kept)
        watch.cancel()
        watch.cancel()
        await store.put("/k", b"")
        assert cancelled.changes == []
        assert len(kept.changes) == 1

    async def test_a_callback_that_raises_harms_nobody_else(self, harness: StoreHarness) -> None:
        store = await harness.open()
        kept = Recorder()

        def broken(_: ChangeSet) -> None:
            raise RuntimeError("a defect in a watcher")

        store.watch("/", broken)
        store.watch("/", kept)
        await store.put("/a", b"")
        await store.put("/b", b"")
        assert [change.key for change in kept.changes] == ["/a", "/b"]

    async def test_a_cancelled_caller_leaves_the_store_usable(self, harness: StoreHarness) -> None:
        store = await harness.open()
        recorder = Recorder()
        store.watch("/", recorder)
        calls = [asyncio.ensure_future(store.put(f"/k{n}", b"")) for n in range(10)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await store.barrier()
        keys = {each.key for each in await store.scan("/", "0")}
        assert keys == {change.key for change in recorder.changes}
        for n, outcome in enumerate(outcomes):
            assert isinstance(outcome, asyncio.CancelledError) or f"/k{n}" in keys


class SessionContract:
    """Ephemeral keys."""

    async def ephemeral(self, store: MetadataStore, key: str) -> Session:
        session = await store.open_session(TTL_MS)
        await store.put(key, b"alive", session=session)
        return session

    async def test_ephemeral_keys_vanish_on_close(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        recorder = Recorder()
        other.watch("/e/", recorder)
        session = await self.ephemeral(store, "/e/1")
        await store.put("/e/2", b"", session=session)
        await self.ephemeral(other, "/other")
        await session.close()
        await session.close()
        assert set(await everything(other)) == {"/other"}
        await other.barrier()
        assert recorder.changes[2:] == [Change("/e/1", None), Change("/e/2", None)]
        assert not session.expired
        with pytest.raises(SessionExpired):
            await store.put("/e/3", b"", session=session)
        assert set(await everything(other)) == {"/other"}

    async def test_closing_the_store_closes_its_sessions(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        await self.ephemeral(store, "/e")
        await store.close()
        assert await other.get("/e") is None

    async def test_keep_alive_keeps_ephemeral_keys(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        session = await self.ephemeral(store, "/e")
        for _ in range(4):
            await harness.pass_time(TTL_MS * 2 // 3, awake=[store, other])
        assert await other.get("/e") is not None
        assert not session.expired
        await store.put("/e/more", b"", session=session)

    async def test_ephemeral_keys_of_a_silent_holder_expire(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        recorder = Recorder()
        other.watch("/", recorder)
        session = await self.ephemeral(store, "/e")
        await store.put("/stays", b"")
        await harness.pass_time(TTL_MS // 2, awake=[other])
        assert await other.get("/e") is not None
        await harness.pass_time(TTL_MS, awake=[other])
        assert set(await everything(other)) == {"/stays"}
        await other.barrier()
        assert recorder.changes[-1] == Change("/e", None)
        with pytest.raises(SessionExpired):
            await store.put("/e", b"back", session=session)
        await harness.pass_time(TTL_MS // 2, awake=[store, other])
        assert session.expired
        with pytest.raises(SessionExpired):
            await store.put("/e", b"back", session=session)
        assert set(await everything(other)) == {"/stays"}

    async def test_a_plain_put_makes_a_key_lasting(self, harness: StoreHarness) -> None:
        store = await harness.open()
        session = await self.ephemeral(store, "/e")
        await store.put("/e", b"lasting")
        await store.put("/f", b"was lasting")
        await store.put("/f", b"ephemeral", session=session)
        await session.close()
        assert set(await everything(store)) == {"/e"}

    async def test_ephemeral_puts_compare_versions(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        await self.ephemeral(store, "/e")
        session = await other.open_session(TTL_MS)
        with pytest.raises(VersionConflict):
            await other.put("/e", b"mine", expect=ABSENT, session=session)

    async def test_a_session_has_bounds(self, harness: StoreHarness) -> None:
        store = await harness.open()
        for ttl_ms in (0, -1, 999, 300_001):
            with pytest.raises(ValueError, match="lives"):
                await store.open_session(ttl_ms)
