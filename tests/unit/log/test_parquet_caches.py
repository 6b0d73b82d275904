"""Decoded batches are kept within bounds, and nothing is decoded twice at once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.unit.log.helpers_parquet import ALL, Shape, by_day, compact, consume, new_batch, read
from tests.unit.log_helpers import STREAM, World, batch

from towpath.broker import log_settings
from towpath.config.settings import Settings
from towpath.errors import LogDamaged, LogUnavailable
from towpath.log.object.decoded_cache import DecodedCache
from towpath.log.object.log import ObjectLog
from towpath.log.object.parquet_batches import Batches
from towpath.log.object.parquet_cache import MAX_LOOKS, BatchCache
from towpath.log.object.parquet_reader import MAX_PARALLEL_PIECES, MAX_READ_BYTES
from towpath.log.object.single_flight import SingleFlight
from towpath.objects.store import ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.records.build import NewRecord

DAY_MS = 86_400_000
SLICES = 8
IN_GROUPS = Shape(row_group_rows=3)


def piece(number: int) -> tuple[tuple[str, int, int], list[Batches]]:
    """A piece of SLICES slices, each of one offset and one byte."""
    start = number * SLICES
    slices = [Batches(at, at + 1, (), 1) for at in range(start, start + SLICES)]
    return ("entry", 1, start), slices


class Reading:
    """Consumers of different pieces, one offset a turn; counts how often a piece is decoded."""

    def __init__(self, max_bytes: int) -> None:
        self.cache = BatchCache(max_bytes, Metrics())
        self.decoded = 0

    def turn(self, number: int, at: int) -> None:
        key, slices = piece(number)
        offset = slices[at].start
        if not self.cache.get(key, offset):
            self.decoded += 1
            self.cache.add(key, slices, offset)
        assert self.cache._size_bytes <= self.cache._max_bytes
        self.cache.note_read(key, offset + 1)


def test_a_piece_is_decoded_once_for_all_its_fetches() -> None:
    reading = Reading(SLICES)
    for number in range(10):
        for at in range(SLICES):
            reading.turn(number, at)
    assert reading.decoded == 10


@pytest.mark.parametrize("rooms", [1, 2, 4, 8])
def test_with_too_many_readers_each_piece_is_decoded_as_often_as_must_be(rooms: int) -> None:
    """Eight readers in turn. With room for seven, a plain LRU would decode in each of 64 turns."""
    reading = Reading(rooms * SLICES)
    for at in range(SLICES):
        for number in range(8):
            reading.turn(number, at)
    assert reading.decoded <= 8 * 8 // rooms


def test_pieces_without_a_reader_do_not_take_room_for_ever() -> None:
    reading = Reading(4 * SLICES)
    for number in range(100, 140):
        reading.turn(number, 0)
    before = reading.decoded
    for number in range(2 * MAX_LOOKS):
        for at in range(SLICES):
            reading.turn(number, at)
    assert reading.decoded < before + 2 * MAX_LOOKS + 200
    late = reading.decoded
    for number in range(200, 220):
        for at in range(SLICES):
            reading.turn(number, at)
    assert reading.decoded == late + 20


def test_a_piece_larger_than_the_cache_keeps_what_is_read_next() -> None:
    cache = BatchCache(3, Metrics())
    key, slices = piece(0)
    cache.add(key, slices, 2)
    assert [part.start for part in cache.get(key, 2)] == [2, 3, 4]
    assert not cache.get(key, 1)
    cache.note_read(key, 4)
    assert [part.start for part in cache.get(key, 4)] == [4]


def test_a_cache_without_room_keeps_nothing() -> None:
    cache = BatchCache(0, Metrics())
    key, slices = piece(0)
    cache.add(key, slices, 0)
    assert not cache.get(key, 0)


async def test_the_cache_of_footers_drops_the_least_recently_used() -> None:
    cache: DecodedCache[str, str] = DecodedCache("x", 6, len, Metrics())
    loads = []

    async def load(value: str) -> str:
        loads.append(value)
        return value

    for value in ("aa", "bb", "cc", "aa", "dd", "aa", "bb"):
        assert await cache.get(value, partial(load, value)) == value
    assert loads == ["aa", "bb", "cc", "dd", "bb"]
    for value in ("large one", "large one", "ee", "ee", "large one"):
        await cache.get(value, partial(load, value))
    assert loads[5:] == ["large one", "ee", "large one"]
    none: DecodedCache[str, str] = DecodedCache("y", 0, len, Metrics())
    for _ in range(2):
        await none.get("ff", partial(load, "ff"))
    assert loads[8:] == ["ff", "ff"]


def test_the_setting_reaches_the_log() -> None:
    assert log_settings(Settings(parquet_cache_bytes=5), 0).parquet_cache_bytes == 5


# Single flight


async def test_who_asks_meanwhile_waits_for_the_same_work() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    gate = asyncio.Event()
    started = []

    async def work() -> int:
        started.append(1)
        await gate.wait()
        return 7

    waiters = [asyncio.ensure_future(flights.run("a", work)) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*waiters[1:]) == [7, 7]
    assert waiters[0].cancelled()
    assert len(started) == 1
    assert await flights.run("a", work) == 7
    assert len(started) == 2


async def test_work_that_nobody_waits_for_ends_and_can_start_again() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    ended = []

    async def work() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)
        return 1

    async def quick() -> int:
        return 2

    waiter = asyncio.ensure_future(flights.run("a", work))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    # The first work has not ended yet; nobody must join what was cancelled.
    assert await flights.run("a", quick) == 2
    await asyncio.sleep(0)
    assert ended == [1]


async def test_a_failure_is_everybodys_and_is_not_kept() -> None:
    flights: SingleFlight[str, int] = SingleFlight()

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ObjectStoreError("no")

    results = await asyncio.gather(
        *(flights.run("a", fail) for _ in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [ObjectStoreError] * 3

    async def quick() -> int:
        return 2

    assert await flights.run("a", quick) == 2


# Through the log


class SlowWorld(World):
    """Reads of Parquet files wait until they are let go; counts them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(range_cache_bytes=0, **settings)
        self.let_go = asyncio.Event()
        self.waiting = 0
        self.sizes: list[int] = []
        self.real_read = self.objects.read
        self.objects.read = self.read  # type: ignore[method-assign]

    async def read(self, path: str, offset: int, length: int) -> memoryview:
        if path.endswith(".parquet"):
            self.sizes.append(length)
            self.waiting += 1
            await self.let_go.wait()
            self.waiting -= 1
        return await self.real_read(path, offset, length)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def compacted(world: World, entries: int = 8, shape: Shape = IN_GROUPS) -> ObjectLog:
    log = await world.log()
    for entry in range(entries):
        new = [NewRecord(b"x", timestamp_ms=(entry + at) % 2 * DAY_MS) for at in range(3)]
        await log.append(STREAM, new_batch(new))
    await compact(world, entries, shape)
    return log


async def test_two_fetches_of_one_row_group_decode_it_once() -> None:
    world = SlowWorld()
    log = await compacted(world)
    fetches = [asyncio.ensure_future(read(log, offset, 1)) for offset in (0, 1, 2, 1)]
    await settle()
    fetches[0].cancel()
    await settle()
    world.let_go.set()
    found = await asyncio.gather(*fetches, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [len(some) for some in found[1:] if isinstance(some, list)] == [2, 1, 2]
    # The footer and one row group.
    assert len(world.sizes) == 2


async def test_a_cancelled_fetch_leaves_nothing_behind() -> None:
    world = SlowWorld()
    log = await compacted(world)
    fetch = asyncio.ensure_future(read(log, 0, 1))
    await settle()
    fetch.cancel()
    await settle()
    world.let_go.set()
    await settle()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "Parquet" in repr(task)]
    assert len(await read(log, 0)) == 24


async def test_only_so_many_pieces_are_in_work_at_once() -> None:
    world = SlowWorld()
    log = await compacted(world)
    world.let_go.set()
    await read(log, 0, 1)
    world.let_go.clear()
    fetches = [asyncio.ensure_future(read(log, offset, 1)) for offset in range(3, 24, 3)]
    await settle()
    assert world.waiting == MAX_PARALLEL_PIECES
    world.let_go.set()
    assert [len(found) for found in await asyncio.gather(*fetches)] == [3] * 7


async def test_a_footer_is_read_once_and_a_row_group_in_one_read() -> None:
    world = SlowWorld()
    world.let_go.set()
    log = await compacted(world, entries=8, shape=Shape(row_group_rows=6))
    assert len(await consume(log, 0, 1)) == 24
    assert len(world.sizes) == 1 + 4
    assert len(await consume(log, 0, ALL)) == 24
    assert len(world.sizes) == 1 + 4


async def test_row_groups_that_overlap_are_read_once() -> None:
    world = SlowWorld()
    world.let_go.set()
    log = await compacted(world, entries=8, shape=Shape(row_group_rows=4, split=by_day))
    assert len(await consume(log, 0, 1)) == 24
    assert len(world.sizes) == 2 + 6


async def test_large_row_groups_are_read_in_pieces() -> None:
    world = SlowWorld()
    world.let_go.set()
    log = await world.log()
    value = bytes(1 << 20)
    for _ in range(20):
        await log.append(STREAM, batch(value))
    await compact(world, 20, Shape(options=(("compression", "none"), ("use_dictionary", False))))
    assert len(await consume(log, 0, 1 << 20)) == 20
    assert sum(world.sizes) > 20 << 20
    assert max(world.sizes) <= MAX_READ_BYTES


async def test_a_failed_decode_is_not_kept() -> None:
    world = SlowWorld()
    world.let_go.set()
    log = await compacted(world)
    world.objects.read_errors.append(ObjectStoreError("once"))
    with pytest.raises(LogUnavailable, match="once"):
        await log.read(STREAM, 0, ALL, min_one=True)
    assert len(await read(log, 0)) == 24


async def test_damage_is_told_to_all_who_wait() -> None:
    world = SlowWorld()
    log = await compacted(world)
    for info in [info async for info in world.objects.list("towpath/tables")]:
        await world.objects.delete(info.path)
        await world.objects.put(info.path, [bytes(info.size_bytes)])
    fetches = [asyncio.ensure_future(read(log, 0)) for _ in range(3)]
    await settle()
    world.let_go.set()
    found = await asyncio.gather(*fetches, return_exceptions=True)
    assert [type(error) for error in found] == [LogDamaged] * 3
