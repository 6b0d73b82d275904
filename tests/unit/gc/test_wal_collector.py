"""WAL objects go when every chunk was let go, confirmed, and the grace is over."""

from __future__ import annotations

import pytest
from tests.unit.gc.helpers_gc import SETTINGS, World

from towpath.gc.wal import WalCollector
from towpath.metadata.keys import streams, topics, wal
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import ObjectStoreError

A = topics.stream_id(1, 0)
B = topics.stream_id(1, 1)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create_topic(1)
    return world


async def release(world: World, stream_id: int, offset: int) -> None:
    await world.delete_before(stream_id, offset)
    await world.run("retention")


async def test_an_object_goes_after_its_last_chunk_and_the_grace(world: World) -> None:
    first = await world.append([A, B])
    second = await world.append([A, B])
    await release(world, A, 10)
    await world.run("wal")
    assert await world.keys(wal.GC_PREFIX) == []
    await release(world, B, 10)
    await world.run("wal")
    (order_key,) = await world.keys(wal.GC_PREFIX)
    found = await world.store.get(order_key)
    assert found is not None
    order = wal.GcOrder.decode(found.value)
    assert order == wal.GcOrder(str(first), world.clock.ms + SETTINGS.wal_gc_grace_ms)
    world.clock.ms += SETTINGS.wal_gc_grace_ms - 1
    await world.run("wal")
    assert await world.object_paths() == {first, second}
    assert await world.store.get(order_key) == found  # The grace is not begun again.
    assert world.metrics.registry.get_sample_value("towpath_gc_pending_deletes") == 1
    world.clock.ms += 1
    summary = await world.run("wal")
    assert summary is not None
    assert summary.removed == 1
    assert await world.object_paths() == {second}
    assert await world.keys(wal.GC_PREFIX) == []
    assert await world.keys(wal.DEREFS_PREFIX) == []
    assert len(await world.keys(wal.OBJECTS_PREFIX)) == 1
    deleted = world.metrics.registry.get_sample_value(
        "towpath_gc_deleted_objects_total", {"collector": "wal"}
    )
    assert deleted == 1


async def test_a_deref_whose_entry_still_names_the_object_counts_for_nothing(world: World) -> None:
    path = await world.append([A])
    await world.append([A])
    key = (await world.keys(streams.index_prefix(A)))[0]
    wal_id = wal.parse_last_uuid((await world.keys(wal.OBJECTS_PREFIX))[0])
    await world.store.put(wal.deref(wal_id, A), wal.Deref(key).encode())
    await world.run("wal")
    assert await world.keys(wal.GC_PREFIX) == []
    # Not even an order deletes what an entry names.
    await world.store.put(wal.gc(0, wal_id), wal.GcOrder(str(path), 0).encode())
    await world.run("wal")
    assert path in await world.object_paths()
    assert await world.keys(wal.GC_PREFIX) == []


async def test_an_entry_that_cannot_be_read_counts_as_a_name(world: World) -> None:
    await world.append([A])
    await world.append([A])
    key = (await world.keys(streams.index_prefix(A)))[0]
    await release(world, A, 10)
    await world.store.put(key, b"\x08\x63")  # Version 99.
    await world.run("wal")
    assert await world.keys(wal.GC_PREFIX) == []


async def test_derefs_of_an_object_that_is_gone_are_removed(world: World) -> None:
    wal_id = wal.wal_id(wal.new_block(1 << 127), 5)
    await world.store.put(wal.deref(wal_id, A), wal.Deref("/gone").encode())
    await world.run("wal")
    assert await world.keys(wal.DEREFS_PREFIX) == []


async def test_damaged_values_do_not_stop_the_others(world: World) -> None:
    path = await world.append([A])
    await world.append([A])
    await release(world, A, 10)
    bad = wal.wal_id(wal.new_block(0), 0)
    await world.store.put(wal.deref(bad, A), wal.Deref("/gone").encode())
    await world.store.put(wal.wal_object(0, bad), b"{}")
    await world.store.put(wal.gc(0, wal.wal_id(bad, 1)), b"not json")
    await world.run("wal")
    world.clock.ms += SETTINGS.wal_gc_grace_ms
    await world.run("wal")
    assert path not in await world.object_paths()


class StubbornObjects(MemoryObjectStore):
    """Refuses to delete one path."""

    stubborn = ""

    async def delete(self, path: str) -> None:
        if path == self.stubborn:
            raise ObjectStoreError("refused")
        await super().delete(path)


async def test_an_object_that_cannot_be_deleted_does_not_stop_the_others() -> None:
    world = World()
    world.objects = objects = StubbornObjects(world.runtime)
    await world.create_topic(1)
    paths = [await world.append([A]) for _ in range(4)]
    objects.stubborn = str(paths[1])
    await release(world, A, 30)
    await world.run("wal")
    world.clock.ms += SETTINGS.wal_gc_grace_ms
    with pytest.raises(ObjectStoreError):
        await world.run("wal")
    assert await world.object_paths() == {paths[1], paths[3]}
    assert len(await world.keys(wal.GC_PREFIX)) == 1
    objects.stubborn = ""
    await world.run("wal")
    assert await world.object_paths() == {paths[3]}


async def test_a_round_is_bounded_and_the_next_goes_on(world: World) -> None:
    for _ in range(11):
        await world.append([A, B])
    await release(world, A, 100)
    await release(world, B, 100)
    collector = WalCollector(
        world.store, world.objects, world.runtime, SETTINGS, world.metrics, keys_per_round=4
    )
    for _ in range(5):
        assert (await collector.run_once()).more
    assert len(await world.keys(wal.GC_PREFIX)) == 10
    world.clock.ms += SETTINGS.wal_gc_grace_ms
    for _ in range(12):
        await collector.run_once()
    assert len(await world.object_paths()) == 1
