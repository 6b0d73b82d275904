"""Objects that go while a broker still knows them: reads go on where the range lives now."""

from __future__ import annotations

import pytest
from tests.unit.log.helpers_parquet import (
    ALL,
    PLAIN,
    Logical,
    Shape,
    compact,
    consume,
    delete_unnamed,
    make_deaf,
    new_batch,
    read,
    records,
)
from tests.unit.log_helpers import STREAM, World

from towpath.errors import LogDamaged, LogUnavailable, OffsetOutOfRange
from towpath.gc.entries import release_entries
from towpath.log.object.log import ObjectLog
from towpath.metadata.keys import streams
from towpath.objects.store import ObjectNotFound
from towpath.records.build import NewRecord

ENTRIES = 12
PER_ENTRY = 3
END = ENTRIES * PER_ENTRY


async def filled(**settings: int) -> tuple[World, ObjectLog, list[Logical]]:
    """A log, and what is in it."""
    world = World(range_cache_bytes=0, **settings)
    log = await world.log()
    for entry in range(ENTRIES):
        new = [NewRecord(b"%d-%d" % (entry, at), b"k", entry * 100 + at) for at in range(PER_ENTRY)]
        await log.append(STREAM, new_batch(new))
    return world, log, await read(log, 0)


async def stale_reader(world: World) -> ObjectLog:
    """A broker that knows the whole index as it is now and hears of no change."""
    log = await world.log(world.second_store())
    await read(log, 0)
    make_deaf(log)
    return log


async def test_a_broker_with_old_entries_goes_on_in_parquet() -> None:
    world, _, before = await filled()
    stale = [await stale_reader(world) for _ in range(3)]
    for first in range(5):
        await compact(world, 2, Shape(row_group_rows=4), first=first)
    # Until the grace is over, what the brokers know can be read.
    for offset in range(END):
        assert await read(stale[0], offset) == before[offset:]
    await delete_unnamed(world)
    for offset in range(END):
        assert await read(stale[0], offset) == before[offset:]
        assert await consume(stale[1], offset, 1) == before[offset:]
    assert await read(stale[2], END - PER_ENTRY) == before[-PER_ENTRY:]


async def test_a_broker_with_old_parquet_entries_goes_on_in_new_ones() -> None:
    world, log, before = await filled()
    for first in range(4):
        await compact(world, 2, Shape(row_group_rows=4), first=first)
    stale = await stale_reader(world)
    await compact(world, 3)
    await compact(world, 2)
    await delete_unnamed(world)
    for offset in range(END):
        assert await read(stale, offset) == before[offset:]
    assert await read(log, 0) == before


@pytest.mark.parametrize("clear", [True, False])
async def test_only_the_first_batch_of_an_answer_begins_below_its_offset(clear: bool) -> None:
    """A cached WAL entry, then the Parquet entry that replaced it: no record comes twice."""
    world, _, before = await filled()
    stale = await stale_reader(world)
    await compact(world, 5, clear=clear)
    for entry in range(1, 5):
        stale._index._cache.changed(streams.index_entry(STREAM, (entry + 1) * PER_ENTRY, 0), None)
    for offset in range(PER_ENTRY):
        found = records((await stale.read(STREAM, offset, ALL, min_one=True)).buffers)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert await consume(stale, offset, ALL) == before[offset:]


class MovingWorld(World):
    """Its objects go in the moment they are read, as often as told."""

    def __init__(self, moves: int) -> None:
        super().__init__(range_cache_bytes=0, parquet_cache_bytes=0)
        self.moves = moves
        self.real_read = self.objects.read
        self.objects.read = self.read  # type: ignore[method-assign]

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        if path.endswith(".parquet") and self.moves:
            self.moves -= 1
            self.objects.read = self.real_read  # type: ignore[method-assign]
            await compact(self, 1, Shape(row_group_rows=2 + self.moves))
            await delete_unnamed(self)
            self.objects.read = self.read  # type: ignore[method-assign]
        return await self.real_read(path, offset, length)


@pytest.mark.parametrize("moves", [1, 2])
async def test_objects_that_move_during_a_read_are_followed(moves: int) -> None:
    world = MovingWorld(0)
    log = await world.log()
    for value in range(6):
        await log.append(STREAM, new_batch([NewRecord(b"%d" % value, timestamp_ms=value)]))
    before = await read(log, 0)
    await compact(world, 4)
    make_deaf(log)
    world.moves = moves
    assert await read(log, 0) == before
    world.moves = moves
    found = await log.offset_for_time(STREAM, 2)
    assert found is not None
    assert (found.offset, world.moves) == (2, 0)
    world.moves = moves
    found = await log.offset_of_max_timestamp(STREAM)
    assert found is not None
    assert found.offset == 5


async def test_objects_that_never_stop_moving_are_a_retriable_failure() -> None:
    world = MovingWorld(0)
    log = await world.log()
    await log.append(STREAM, new_batch([NewRecord(b"x")]))
    await compact(world, 1)
    world.moves = 1_000
    with pytest.raises(LogUnavailable, match="keep moving"):
        await log.read(STREAM, 0, ALL, min_one=True)


async def test_a_wal_object_that_goes_under_a_time_lookup_is_followed() -> None:
    world, log, _ = await filled()
    real_read = world.objects.read

    async def read_after_compaction(path: str, offset: int, length: int) -> memoryview:
        world.objects.read = real_read  # type: ignore[method-assign]
        await compact(world, ENTRIES)
        await delete_unnamed(world)
        raise ObjectNotFound(path)

    world.objects.read = read_after_compaction  # type: ignore[method-assign]
    found = await log.offset_for_time(STREAM, 701)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (7 * PER_ENTRY + 1, 701)


@pytest.mark.parametrize("shape", [PLAIN, Shape(file_rows=5)])
async def test_a_missing_file_that_the_index_names_is_an_error_that_names_it(shape: Shape) -> None:
    world, log, before = await filled(parquet_cache_bytes=0)
    paths = await compact(world, 4, shape)
    await world.objects.delete(paths[0])
    with pytest.raises(LogDamaged, match=paths[0]):
        await log.read(STREAM, 0, ALL, min_one=True)
    with pytest.raises(LogDamaged, match=paths[0]):
        await log.offset_for_time(STREAM, 0)
    assert await read(log, 4 * PER_ENTRY) == before[4 * PER_ENTRY :]


async def test_a_file_that_retention_released_is_out_of_range() -> None:
    world, log, before = await filled(parquet_cache_bytes=0)
    await compact(world, 4)
    other = await world.log(world.second_store())
    assert await read(other, 0) == before
    upto = 4 * PER_ENTRY
    await log.delete_before(STREAM, upto)
    await release_entries(world.first_store, STREAM, upto, log.save_producers, limit=9)
    await delete_unnamed(world)
    for one in (log, other):
        with pytest.raises(OffsetOutOfRange):
            await one.read(STREAM, 0, ALL, min_one=True)
        assert await read(one, upto) == before[upto:]
