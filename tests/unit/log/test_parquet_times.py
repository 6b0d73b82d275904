"""ListOffsets by timestamp gives the same answers before and after compaction."""

from __future__ import annotations

import random

import pytest
from tests.unit.log.helpers_parquet import PLAIN, Shape, by_day, compact, new_batch, read
from tests.unit.log_helpers import STREAM, World

from towpath.log.interface import TimestampedOffset
from towpath.log.object.log import ObjectLog
from towpath.records.build import NewRecord

DAY_MS = 86_400_000
NONE_MS = -1
Answers = tuple[list[TimestampedOffset | None], TimestampedOffset | None]


async def filled(times_ms: list[list[int]]) -> tuple[World, ObjectLog]:
    """A log of one entry per list."""
    world = World(range_cache_bytes=0)
    log = await world.log()
    for some in times_ms:
        await log.append(STREAM, new_batch([NewRecord(b"x", timestamp_ms=at) for at in some]))
    return world, log


async def answers(log: ObjectLog, times_ms: list[list[int]]) -> Answers:
    """What the log says at, before and after each timestamp, and of the greatest."""
    asked = {at + delta for some in times_ms for at in some for delta in (-1, 0, 1)}
    asked |= {-2, 0, (1 << 63) - 1}
    found = [await log.offset_for_time(STREAM, at) for at in sorted(asked)]
    return found, await log.offset_of_max_timestamp(STREAM)


SHAPES = [PLAIN, Shape(row_group_rows=2), Shape(split=by_day, row_group_rows=2), Shape(file_rows=3)]


@pytest.mark.parametrize("shape", [*SHAPES, Shape(3, options=(("write_statistics", False),))])
@pytest.mark.parametrize(
    "times_ms",
    [
        [[100, 200], [300, 400], [500]],
        [[500, 100], [400, 500], [300, 500, 499]],
        [[NONE_MS, NONE_MS], [NONE_MS]],
        [[NONE_MS, 5], [0, NONE_MS], [5, 6]],
        [[DAY_MS - 1, DAY_MS], [3 * DAY_MS, 10], [2 * DAY_MS, DAY_MS, 3 * DAY_MS]],
    ],
)
async def test_times_are_found_as_in_the_wal(shape: Shape, times_ms: list[list[int]]) -> None:
    for log_start in (0, 1, 3):
        world, log = await filled(times_ms)
        await log.delete_before(STREAM, log_start)
        before = await answers(log, times_ms)
        for count in (1, 2, 3):
            world, log = await filled(times_ms)
            await compact(world, count, shape)
            await log.delete_before(STREAM, log_start)
            assert await answers(log, times_ms) == before


@pytest.mark.parametrize("seed", range(20))
async def test_random_times(seed: int) -> None:
    chance = random.Random(seed)
    pick = [NONE_MS, 0, 1, 7, DAY_MS - 1, DAY_MS, 2 * DAY_MS, 9 * DAY_MS]
    times_ms = [[chance.choice(pick) for _ in range(chance.randint(1, 6))] for _ in range(8)]
    world, log = await filled(times_ms)
    end = sum(len(some) for some in times_ms)
    await log.delete_before(STREAM, chance.randint(0, end))
    before = await answers(log, times_ms)
    for clear in (True, True, False):
        split = by_day if chance.random() < 0.5 else PLAIN.split
        shape = Shape(chance.randint(1, 9), chance.randint(1, 9), split)
        await compact(world, 2, shape, first=chance.randint(0, 1), clear=clear)
        assert await answers(log, times_ms) == before


async def test_removed_records_are_not_found() -> None:
    times_ms = [[100, 200], [300, 400], [400, 300]]
    world, log = await filled(times_ms)
    await compact(world, 3, Shape(row_group_rows=2, removed=frozenset({2, 3})))
    assert await log.offset_for_time(STREAM, 250) == TimestampedOffset(4, 400)
    assert await log.offset_of_max_timestamp(STREAM) == TimestampedOffset(4, 400)


async def test_only_row_groups_that_may_hold_the_time_are_read() -> None:
    times_ms = [[at, at + 1] for at in range(0, 2_000, 10)]
    world, log = await filled(times_ms)
    await compact(world, len(times_ms), Shape(row_group_rows=20, file_rows=200))
    reads = world.objects.reads
    assert await log.offset_for_time(STREAM, 1_501) == TimestampedOffset(301, 1_501)
    assert await log.offset_for_time(STREAM, 99_999) is None
    assert world.objects.reads == reads + 2
    assert await log.offset_of_max_timestamp(STREAM) == TimestampedOffset(399, 1_991)
    assert world.objects.reads == reads + 4
    assert len(await read(log, 0)) == 400


@pytest.mark.parametrize("compacted", [0, 1, 2, 4])
@pytest.mark.parametrize("shape", SHAPES)
async def test_timestamps_by_offset(shape: Shape, compacted: int) -> None:
    times_ms = [[1_000, 1_000], [3_000, 3_400], [NONE_MS, 5_000], [4_000]]
    world, log = await filled(times_ms)
    if compacted:
        await compact(world, compacted, shape)
    exact = [await log.timestamp_at(STREAM, at, within_ms=0) for at in range(8)]
    assert exact == [1_000, 1_000, 3_000, 3_400, None, 5_000, 4_000, None]
    await log.delete_before(STREAM, 3)
    assert await log.timestamp_at(STREAM, 0, within_ms=0) == 3_400


async def test_a_timestamp_that_may_be_off_needs_no_object() -> None:
    world, log = await filled([[1_000, 1_000], [3_000, 3_400], [NONE_MS, 5_000]])
    reads = world.objects.reads
    near = [await log.timestamp_at(STREAM, at, within_ms=400) for at in range(4)]
    assert near == [1_000, 1_000, 3_000, 3_000]
    assert world.objects.reads == reads
    assert await log.timestamp_at(STREAM, 3, within_ms=399) == 3_400
    assert await log.timestamp_at(STREAM, 4, within_ms=10_000) is None
    assert world.objects.reads > reads


async def test_the_timestamp_of_a_record_after_removed_ones() -> None:
    world, log = await filled([[100, 200], [300, 400], [450, 300]])
    await compact(world, 3, Shape(row_group_rows=2, removed=frozenset({2, 3, 5})))
    found = [await log.timestamp_at(STREAM, at, within_ms=0) for at in range(7)]
    assert found == [100, 200, 450, 450, 450, None, None]
