"""What every metadata store must do with commits and the tails of streams."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.metadata_store_harness import (
    Recorder,
    StoreHarness,
    append,
    everything,
)

from towpath.metadata.keys import streams
from towpath.metadata.store import (
    Condition,
    ConditionFailed,
    KeyIs,
    MetadataStore,
    Put,
    Tail,
    TailIs,
)


class CommitContract:
    """The multi-key commit and the tails of streams."""

    async def test_a_stream_without_entries_ends_at_zero(self, harness: StoreHarness) -> None:
        store = await harness.open()
        assert await store.tails([1, 2, 1]) == [Tail(0, 0)] * 3
        assert await store.tails([]) == []

    async def test_appends_get_the_next_offsets(self, harness: StoreHarness) -> None:
        store = await harness.open()
        first = await store.commit(0, appends=[append(7, 3, 100), append(2**64 - 1, 1, 5)])
        assert first.tails == (Tail(3, 100), Tail(1, 5))
        second = await store.commit(0, appends=[append(7, 2, 50, b"second")])
        assert second.tails == (Tail(5, 150),)
        assert second.revision > first.revision
        found = await store.last(streams.index_prefix(7), streams.index_end(7))
        assert found is not None
        assert found.key == streams.index_entry(7, 5, 150)
        assert (found.value, found.version) == (b"second", second.revision)
        assert await store.tails([2**64 - 1, 7]) == [Tail(1, 5), Tail(5, 150)]

    async def test_several_appends_to_a_stream_follow_each_other(
        self, harness: StoreHarness
    ) -> None:
        store, other = await harness.open(), await harness.open()
        await store.commit(0, appends=[append(7, 1, 10)])
        assert await other.tails([7, 8]) == [Tail(1, 10), Tail(0, 0)]
        wanted = [append(7, 3, 100, b"a"), append(8, 1, 5, b"b"), append(7, 2, 50, b"c")]
        done = await store.commit(0, appends=wanted, expect=[TailIs(7, 1), TailIs(8, 0)])
        assert done.tails == (Tail(4, 110), Tail(1, 5), Tail(6, 160))
        await other.barrier()
        assert await other.tails([7, 8]) == [Tail(6, 160), Tail(1, 5)]
        found = await other.scan(streams.index_prefix(7), streams.index_end(7))
        assert [(row.key, row.value) for row in found[1:]] == [
            (streams.index_entry(7, 4, 110), b"a"),
            (streams.index_entry(7, 6, 160), b"c"),
        ]

    async def test_neighbouring_streams_do_not_mix(self, harness: StoreHarness) -> None:
        store = await harness.open()
        for stream_id in (10, 9, 11):
            await store.commit(0, appends=[append(stream_id, stream_id)])
        await store.put(streams.log_start(10), b"1:0")
        await store.put(streams.producer_snapshot(10), b"")
        assert [tail.offset_end for tail in await store.tails([8, 9, 10, 11])] == [0, 9, 10, 11]

    async def test_all_kinds_of_operations_together(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        marker = await store.put("/staging", b"m")
        await store.put("/old", b"o")
        done = await store.commit(
            0,
            appends=[append(1, 4, 40)],
            puts=[Put("/object", b"p"), Put("/old", b"new")],
            deletes=["/staging", "/never-there"],
            expect=[KeyIs("/staging"), KeyIs("/staging", marker), TailIs(1, 0)],
        )
        assert await everything(other) == {
            streams.index_entry(1, 4, 40): (b"v", done.revision),
            "/object": (b"p", done.revision),
            "/old": (b"new", done.revision),
        }

    async def test_a_failed_condition_changes_nothing(self, harness: StoreHarness) -> None:
        store = await harness.open()
        recorder = Recorder()
        version = await store.put("/k", b"k")
        await store.commit(0, appends=[append(5, 2)])
        before = await everything(store)
        store.watch("", recorder)
        holds: list[Condition] = [KeyIs("/k"), KeyIs("/k", version), TailIs(5, 2), TailIs(6, 0)]
        fails: list[Condition] = [
            KeyIs("/none"), KeyIs("/k", version + 1), TailIs(5, 1), TailIs(6, 1)
        ]  # fmt: skip
        with pytest.raises(ConditionFailed) as failure:
            await store.commit(
                0,
                appends=[append(5), append(6)],
                puts=[Put("/p", b"")],
                deletes=["/k"],
                expect=[*holds, *fails],
            )
        assert failure.value.failed == tuple(fails)
        await store.barrier()
        assert recorder.changes == []
        assert await everything(store) == before
        assert await store.tails([5, 6]) == [Tail(2, 10), Tail(0, 0)]

    async def test_malformed_commits_are_refused(self, harness: StoreHarness) -> None:
        store = await harness.open()
        for appends in (
            [append(1, records=0)],
            [append(1, size_bytes=0)],
            [append(2**64)],
            [append(-1)],
        ):
            with pytest.raises(ValueError, match=r".+"):
                await store.commit(0, appends=appends, puts=[Put("/p", b"")])
        with pytest.raises(ValueError, match="domain"):
            await store.commit(store.domain_count, puts=[Put("/p", b"")])
        with pytest.raises(ValueError, match="at most once"):
            await store.commit(0, puts=[Put("/p", b"1"), Put("/p", b"2")])
        with pytest.raises(ValueError, match="at most once"):
            await store.commit(0, puts=[Put("/p", b"1")], deletes=["/p"])
        with pytest.raises(ValueError, match="appends"):
            await store.commit(
                0, appends=[append(1)], puts=[Put(streams.index_entry(1, 1, 10), b"")]
            )
        assert await everything(store) == {}

    async def test_an_empty_commit_is_no_change(self, harness: StoreHarness) -> None:
        store = await harness.open()
        recorder = Recorder()
        store.watch("", recorder)
        revision = await store.put("/k", b"")
        done = await store.commit(0, deletes=["/none"], expect=[KeyIs("/k")])
        assert (done.tails, done.revision) == ((), revision)
        assert len(recorder.changes) == 1

    async def test_offsets_are_dense_under_concurrent_committers(
        self, harness: StoreHarness
    ) -> None:
        clients = [await harness.open() for _ in range(3)]

        async def commit_many(client: MetadataStore, seed: int) -> list[tuple[int, int, int]]:
            taken = []
            for n in range(15):
                records = 1 + (seed + n) % 4
                wanted = [append(1, records, records), append(2 + n % 2, records, records)]
                done = await client.commit(0, appends=wanted)
                for each, tail in zip(wanted, done.tails, strict=True):
                    assert tail.offset_end == tail.cumulative_size
                    taken.append((each.stream_id, tail.offset_end - records, tail.offset_end))
            return taken

        tasks = [commit_many(clients[n % 3], n) for n in range(9)]
        taken = sorted(each for part in await asyncio.gather(*tasks) for each in part)
        assert len(taken) == 9 * 15 * 2
        for stream_id in (1, 2, 3):
            ranges = [(start, end) for stream, start, end in taken if stream == stream_id]
            assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
            for client in clients:
                (tail,) = await client.tails([stream_id])
                assert tail.offset_end == ranges[-1][1]

    async def test_one_of_many_racers_wins_a_tail(self, harness: StoreHarness) -> None:
        clients = [await harness.open() for _ in range(3)]
        await clients[0].commit(0, appends=[append(1, 5)])
        tries = [
            clients[n % 3].commit(0, appends=[append(1)], expect=[TailIs(1, 5)]) for n in range(9)
        ]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(each, ConditionFailed) for each in outcomes) == 8
        assert await clients[1].tails([1]) == [Tail(6, 20)]

    async def test_tails_are_linearizable_across_clients(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        for n in range(1, 20):
            writer, reader = (store, other) if n % 2 else (other, store)
            await writer.commit(0, appends=[append(1)])
            assert await reader.tails([1]) == [Tail(n, 10 * n)]
            assert await writer.tails([1]) == [Tail(n, 10 * n)]

    async def test_tails_follow_replaced_and_deleted_entries(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        for _ in range(3):
            await store.commit(0, appends=[append(1)])
        assert await other.tails([1]) == [Tail(3, 30)]
        await store.put(streams.index_entry(1, 2, 20), b"swapped")
        await store.delete(streams.index_entry(1, 1, 10))
        assert await other.tails([1]) == [Tail(3, 30)]
        await store.put(streams.index_entry(1, 3, 30), b"tombstone")
        assert await other.tails([1]) == [Tail(3, 30)]
        await store.delete(streams.index_entry(1, 3, 30))
        assert await other.tails([1]) == [Tail(2, 20)]
        assert await store.tails([1]) == [Tail(2, 20)]
        await store.delete(streams.index_entry(1, 2, 20))
        assert await other.tails([1]) == [Tail(0, 0)]
