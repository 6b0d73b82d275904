"""What every metadata store must do with single keys and ordered reads."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.metadata_store_harness import (
    StoreHarness,
    everything,
)

from towpath.metadata.keys import streams
from towpath.metadata.store import (
    ABSENT,
    Put,
    VersionConflict,
    prefix_end,
)


class SingleKeyContract:
    """get, put, delete and the ordered reads."""

    async def test_an_absent_key_reads_as_none(self, harness: StoreHarness) -> None:
        store = await harness.open()
        assert await store.get("/absent") is None
        assert await store.last("/", "0") is None
        assert await store.first_above("/", "0") is None
        assert await store.scan("/", "0") == []

    async def test_put_and_get_round_trip(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        for value in (b"", b"\0\xff", b"x" * 100_000):
            version = await store.put("/k", value)
            for reader in (store, other):
                found = await reader.get("/k")
                assert found is not None
                assert (found.key, found.value, found.version) == ("/k", value, version)

    async def test_put_absent_writes_once(self, harness: StoreHarness) -> None:
        store = await harness.open()
        version = await store.put("/k", b"1", expect=ABSENT)
        with pytest.raises(VersionConflict) as conflict:
            await store.put("/k", b"2", expect=ABSENT)
        assert (conflict.value.key, conflict.value.actual_version) == ("/k", version)
        assert await everything(store) == {"/k": (b"1", version)}

    async def test_put_at_a_version_writes_only_then(self, harness: StoreHarness) -> None:
        store = await harness.open()
        first = await store.put("/k", b"1")
        second = await store.put("/k", b"2", expect=first)
        assert second > first
        with pytest.raises(VersionConflict) as conflict:
            await store.put("/k", b"3", expect=first)
        assert conflict.value.actual_version == second
        with pytest.raises(VersionConflict) as conflict:
            await store.put("/none", b"3", expect=first)
        assert conflict.value.actual_version is None
        assert await everything(store) == {"/k": (b"2", second)}

    async def test_delete_and_its_expectations(self, harness: StoreHarness) -> None:
        store = await harness.open()
        assert await store.delete("/k") is False
        assert await store.delete("/k", expect=ABSENT) is False
        with pytest.raises(VersionConflict):
            await store.delete("/k", expect=1)
        version = await store.put("/k", b"1")
        for wrong in (ABSENT, version + 1):
            with pytest.raises(VersionConflict) as conflict:
                await store.delete("/k", expect=wrong)
            assert conflict.value.actual_version == version
        assert await store.delete("/k", expect=version) is True
        assert await store.get("/k") is None

    async def test_versions_are_never_reused(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        seen = []
        for client in (store, other, store):
            seen.append(await client.put("/k", b"x"))
            assert await client.delete("/k")
        assert seen == sorted(set(seen))
        assert seen[0] > 0

    async def test_one_of_many_racers_wins_a_compare_and_set(self, harness: StoreHarness) -> None:
        clients = [await harness.open() for _ in range(3)]
        version = await clients[0].put("/k", b"0")
        tries = [clients[n % 3].put("/k", b"%d" % n, expect=version) for n in range(1, 13)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        winners = [n for n, each in enumerate(outcomes, 1) if isinstance(each, int)]
        assert len(winners) == 1
        assert sum(isinstance(each, VersionConflict) for each in outcomes) == 11
        found = await clients[1].get("/k")
        assert found is not None
        assert found.value == b"%d" % winners[0]

    async def test_order_is_that_of_bytes(self, harness: StoreHarness) -> None:
        store = await harness.open()
        keys = ["/a", "/a/", "/a/b", "/a-", "/b", "/B", "/é", "/\uffee", "/\U0001f600", "/a/b/c"]
        for key in keys:
            await store.put(key, key.encode())
        expected = sorted(keys, key=str.encode)
        assert [each.key for each in await store.scan("/", "0")] == expected
        for at, key in enumerate(expected):
            above = await store.first_above(key, "0")
            assert ([above.key] if above else []) == expected[at + 1 : at + 2]
            last = await store.last("/", key)
            assert ([last.key] if last else []) == expected[max(0, at - 1) : at]

    async def test_scan_bounds_and_limits(self, harness: StoreHarness) -> None:
        store = await harness.open()
        keys = [f"/s/{n:04d}" for n in range(700)]
        await store.commit(0, puts=[Put(key, b"v") for key in keys])

        async def scanned(start: str, end: str, limit: int) -> list[str]:
            return [each.key for each in await store.scan(start, end, limit=limit)]

        assert await scanned("/s/", prefix_end("/s/"), 1000) == keys
        assert await scanned("/s/", prefix_end("/s/"), 500) == keys[:500]
        assert await scanned("/s/", prefix_end("/s/"), 1) == keys[:1]
        assert await scanned("/s/", prefix_end("/s/"), 0) == []
        assert await scanned("/s/0010", "/s/0013", 10) == keys[10:13]
        assert await scanned("/s/0010", "/s/0010", 10) == []
        assert await scanned("/s/0013", "/s/0010", 10) == []
        with pytest.raises(ValueError, match="limit"):
            await store.scan("/", "0", limit=-1)

    async def test_malformed_input_changes_nothing(self, harness: StoreHarness) -> None:
        store = await harness.open()
        for key in ("", "/a\0b", "/\ud800", "k" * 5000, streams.index_prefix(1) + "7"):
            with pytest.raises(ValueError, match=r".+"):
                await store.put(key, b"v")
            with pytest.raises(ValueError, match=r".+"):
                await store.commit(0, puts=[Put("/ok", b""), Put(key, b"v")])
        with pytest.raises(TypeError):
            await store.put("/k", "text")  # type: ignore[arg-type]
        assert await everything(store) == {}
