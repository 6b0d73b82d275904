"""Objects that were never committed: condemned by their marker, collected after a grace."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gc.helpers_gc import SETTINGS, World

from towpath.metadata.keys import topics, wal

A = topics.stream_id(1, 0)


async def marker_of(world: World) -> wal.StagingBlock:
    (key,) = await world.keys(wal.STAGING_PREFIX)
    found = await world.store.get(key)
    assert found is not None
    return wal.StagingBlock.decode(found.value)


async def test_uncommitted_objects_go_and_committed_ones_stay() -> None:
    world = World()
    committed = [await world.append([A]) for _ in range(2)]
    orphans = [(await world.put_object())[1] for _ in range(3)]
    committed.append(await world.append([A]))
    await world.reserve_block()  # A block of another broker, which is still in use.
    block = world.block
    world.clock.ms += SETTINGS.wal_orphan_ttl_ms - 1
    assert block is not None
    young = await world.store.get(wal.staging(0, block.block_id))
    assert young is not None
    fresh = replace(wal.StagingBlock.decode(young.value), created_at_ms=world.clock.ms)
    block.version = await world.store.put(young.key, fresh.encode())
    in_flight = (await world.put_object())[1]
    await world.run("orphans")
    assert len(await world.keys(wal.STAGING_PREFIX)) == 2
    assert world.metrics.registry.get_sample_value("towpath_gc_orphan_blocks") == 0

    world.clock.ms += 1
    await world.run("orphans")
    assert world.metrics.registry.get_sample_value("towpath_gc_orphan_blocks") == 1
    assert await world.object_paths() == {*committed, *orphans, in_flight}
    world.clock.ms += SETTINGS.wal_gc_grace_ms - 1
    await world.run("orphans")
    assert await world.object_paths() == {*committed, *orphans, in_flight}
    world.clock.ms += 1
    summary = await world.run("orphans")
    assert summary is not None
    assert summary.removed == 3
    assert await world.object_paths() == {*committed, in_flight}
    assert await world.keys(wal.STAGING_PREFIX) == [wal.staging(0, block.block_id)]
    assert world.metrics.registry.get_sample_value("towpath_gc_orphan_blocks") == 0


async def test_a_condemned_block_can_commit_nothing() -> None:
    world = World()
    wal_id, path, block = await world.put_object()
    world.clock.ms += SETTINGS.wal_orphan_ttl_ms
    await world.run("orphans")
    assert (await marker_of(world)).condemned_at_ms == world.clock.ms
    assert await world.commit(wal_id, path, block, [A]) is None
    assert await world.entries(A) == []
    world.clock.ms += SETTINGS.wal_gc_grace_ms
    await world.run("orphans")
    assert await world.object_paths() == set()
    assert await world.commit(wal_id, path, block, [A]) is None


async def test_only_objects_of_the_block_are_touched() -> None:
    world = World()
    _, path, block = await world.put_object()
    at = str(block.block_id)[:28]
    # The next block in order, a file of somebody else, and another spelling of a walId.
    foreign = [
        f"{block.prefix}{wal.wal_id(wal.new_block((block.block_id.int >> 32) + 1 << 32), 0)}.wo",
        f"{block.prefix}{at}.backup",
        f"{block.prefix}{at}{'0' * 8}.wo.tmp",
        path.replace(".wo", ".txt"),
        path.replace(block.prefix, "elsewhere/"),
    ]
    for name in foreign:
        await world.objects.put(name, [b"1"])
    world.clock.ms += SETTINGS.wal_orphan_ttl_ms
    await world.run("orphans")
    world.clock.ms += SETTINGS.wal_gc_grace_ms
    await world.run("orphans")
    assert await world.object_paths() == set(foreign)


async def test_many_objects_of_one_block() -> None:
    world = World()
    committed = set()
    for n in range(1200):
        if n % 3:
            await world.put_object()
        else:
            committed.add(await world.append([A]))
    world.clock.ms += SETTINGS.wal_orphan_ttl_ms
    await world.run("orphans")
    world.clock.ms += SETTINGS.wal_gc_grace_ms
    summary = await world.run("orphans")
    assert summary is not None
    assert summary.removed == 800
    assert await world.object_paths() == committed


async def test_a_marker_that_cannot_be_read_stays() -> None:
    world = World()
    key = wal.staging(0, wal.new_block(0))
    await world.store.put(key, b'{"version":2}')
    world.clock.ms += 100 * SETTINGS.wal_orphan_ttl_ms
    await world.run("orphans")
    assert await world.keys(wal.STAGING_PREFIX) == [key]
