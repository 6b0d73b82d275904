"""What every object store must do, as tests that any store can run.

A test module subclasses `ObjectStoreContract` and gives it a `store` fixture with an empty store.
"""

from __future__ import annotations

import asyncio

import pytest

from towpath.objects.paths import InvalidObjectPath
from towpath.objects.store import (
    Buffer,
    ObjectExists,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreError,
)

BAD_PATHS = [
    "",
    "/a",
    "a/",
    "a//b",
    "..",
    "../a",
    "a/../b",
    "a/..",
    "./a",
    "a/.",
    "nul\0",
    ".towpath/x",
    "lone surrogate \ud800",
    "x" * 1025,
]


async def listed(store: ObjectStore, prefix: str) -> list[str]:
    """The paths of a listing, in its order."""
    return [info.path async for info in store.list(prefix)]


class ObjectStoreContract:
    """The suite."""

    async def test_an_object_reads_back_as_its_parts_joined(self, store: ObjectStore) -> None:
        parts: list[Buffer] = [b"abc", b"", bytearray(b"de"), memoryview(b"xfgx")[1:3]]
        await store.put("dir/sub/object.wo", parts)
        assert bytes(await store.read("dir/sub/object.wo", 0, 7)) == b"abcdefg"
        info = await store.stat("dir/sub/object.wo")
        assert (info.path, info.size_bytes) == ("dir/sub/object.wo", 7)

    @pytest.mark.parametrize("parts", [[], [b""], [b"", b""]])
    async def test_an_object_may_be_empty(self, store: ObjectStore, parts: list[bytes]) -> None:
        await store.put("empty", parts)
        assert (await store.stat("empty")).size_bytes == 0
        assert bytes(await store.read("empty", 0, 0)) == b""

    async def test_more_parts_than_one_system_call_takes(self, store: ObjectStore) -> None:
        parts = [bytes([n % 256]) * (n % 5) for n in range(5000)]
        whole = b"".join(parts)
        await store.put("many", parts)
        assert bytes(await store.read("many", 0, len(whole))) == whole

    async def test_ranges_of_small_and_large_objects(self, store: ObjectStore) -> None:
        whole = bytes(range(256)) * (9 * 4096 + 1)  # More than one read call takes.
        await store.put("large", [whole[:1000], whole[1000:]])
        for offset, length in [(0, 1), (5, 10), (300_000, 300_000), (0, len(whole)), (7, 8 << 20)]:
            assert (
                bytes(await store.read("large", offset, length)) == whole[offset : offset + length]
            )
        assert bytes(await store.read("large", len(whole) - 1, 1)) == whole[-1:]
        assert bytes(await store.read("large", len(whole), 0)) == b""

    @pytest.mark.parametrize(
        ("offset", "length"),
        [(0, 4), (3, 1), (4, 0), (2, 9 << 20), (10**12, 1), (-1, 2), (0, -1)],
    )
    async def test_a_range_outside_the_object_fails(
        self, store: ObjectStore, offset: int, length: int
    ) -> None:
        await store.put("three", [b"123"])
        with pytest.raises(ObjectStoreError) as failure:
            await store.read("three", offset, length)
        assert not isinstance(failure.value, ObjectNotFound)

    async def test_what_does_not_exist_is_not_found(self, store: ObjectStore) -> None:
        await store.put("dir/there", [b"1"])
        for path in ("absent", "dir/absent", "no-dir/absent", "dir/there/below"):
            with pytest.raises(ObjectNotFound):
                await store.read(path, 0, 1)
            with pytest.raises(ObjectNotFound):
                await store.stat(path)
            await store.delete(path)
        assert await listed(store, "") == ["dir/there"]

    async def test_a_directory_is_no_object(self, store: ObjectStore) -> None:
        await store.put("dir/there", [b"1"])
        with pytest.raises(ObjectNotFound):
            await store.stat("dir")
        with pytest.raises(ObjectNotFound):
            await store.read("dir", 0, 1)
        await store.delete("dir")
        assert await listed(store, "") == ["dir/there"]

    async def test_an_existing_object_is_not_touched(self, store: ObjectStore) -> None:
        await store.put("a/b", [b"first"])
        with pytest.raises(ObjectExists):
            await store.put("a/b", [b"second"])
        assert bytes(await store.read("a/b", 0, 5)) == b"first"
        assert await listed(store, "") == ["a/b"]

    async def test_one_of_many_puts_of_a_name_wins(self, store: ObjectStore) -> None:
        results = await asyncio.gather(
            *(store.put("new/name", [b"%d" % n]) for n in range(8)), return_exceptions=True
        )
        winners = [n for n, result in enumerate(results) if result is None]
        assert len(winners) == 1
        assert sum(isinstance(result, ObjectExists) for result in results) == 7
        assert bytes(await store.read("new/name", 0, 1)) == b"%d" % winners[0]

    async def test_delete_is_idempotent(self, store: ObjectStore) -> None:
        await store.put("a/b/c", [b"1"])
        await store.put("a/d", [b"1"])
        await asyncio.gather(*(store.delete("a/b/c") for _ in range(3)))
        assert await listed(store, "") == ["a/d"]
        with pytest.raises(ObjectNotFound):
            await store.stat("a/b/c")

    async def test_a_directory_can_be_used_again_after_its_last_delete(
        self, store: ObjectStore
    ) -> None:
        for n in range(3):
            await store.put(f"a/b/{n}", [b"1"])
            await store.delete(f"a/b/{n}")
        await store.put("a/b/last", [b"1"])
        assert await listed(store, "") == ["a/b/last"]

    async def test_a_listing_is_in_path_order(self, store: ObjectStore) -> None:
        paths = ["a", "a-b", "b/a", "b/c/d", "b-", "b.", "b0", "é/x", "b/c!", "z/z/z/z", "Z"]
        for path in paths:
            await store.put(path, [path.encode()])
        found = [info async for info in store.list("")]
        assert [info.path for info in found] == sorted(paths)
        assert [info.size_bytes for info in found] == [len(p.encode()) for p in sorted(paths)]

    @pytest.mark.parametrize(
        "prefix",
        ["b", "b/", "b/c", "b/c/", "b/c/d", "b/c/d/", "b/x", "q", "/b", "b//", "../", "..", "é"],
    )
    async def test_a_prefix_is_any_string(self, store: ObjectStore, prefix: str) -> None:
        paths = ["a", "b/a", "b/c/d", "b/c/de", "b/c-", "bc", "é/x"]
        for path in paths:
            await store.put(path, [b"1"])
        expected = [path for path in sorted(paths) if path.startswith(prefix)]
        assert await listed(store, prefix) == expected

    async def test_a_listing_tolerates_deletes(self, store: ObjectStore) -> None:
        paths = [f"{directory}/{n:03d}" for directory in "abc" for n in range(40)]
        for path in paths:
            await store.put(path, [b"1"])
        seen = []
        async for info in store.list(""):
            seen.append(info.path)
            if info.path == "a/000":
                for path in paths[20:100]:
                    await store.delete(path)
        assert set(seen) >= {*paths[:20], *paths[100:]}
        assert seen == sorted(set(seen))

    @pytest.mark.parametrize("path", BAD_PATHS)
    async def test_a_bad_path_is_refused(self, store: ObjectStore, path: str) -> None:
        with pytest.raises(InvalidObjectPath):
            await store.put(path, [b"1"])
        with pytest.raises(InvalidObjectPath):
            await store.read(path, 0, 1)
        with pytest.raises(InvalidObjectPath):
            await store.stat(path)
        with pytest.raises(InvalidObjectPath):
            await store.delete(path)
        assert await listed(store, "") == []

    async def test_the_probe_leaves_nothing(self, store: ObjectStore) -> None:
        await store.probe()
        assert await listed(store, "") == []
