"""Offsets whose records lie in Parquet files are served as if they still lay in the WAL."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.log.helpers_parquet import (
    ALL,
    DAY_MS,
    PLAIN,
    Logical,
    Shape,
    batches,
    by_day,
    compact,
    consume,
    new_batch,
    ranges,
    read,
    records,
)
from tests.unit.log_helpers import STREAM, World, batch

from towpath.errors import OffsetOutOfRange
from towpath.gc.entries import release_entries
from towpath.lakehouse.jobs.parquet_out import WRITER_OPTIONS
from towpath.log.object.log import ObjectLog
from towpath.log.object.parquet_batches import MAX_OFFSET_DELTA, void_batches
from towpath.metadata.keys import streams
from towpath.metadata.proto import index_pb2
from towpath.objects.fs import FsObjectStore
from towpath.records.batch import parse_header
from towpath.records.build import NewRecord
from towpath.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from towpath.runtime import ThreadOffload
from towpath.threads import WorkThreads

ENTRIES = 10
RECORDS_PER_ENTRY = 6
END = ENTRIES * RECORDS_PER_ENTRY
START_MS = 1_700_000_000_000


def varied(entry: int) -> list[NewRecord]:
    """Records with and without key, value, headers and timestamp; headers with the same name."""
    base_ms = START_MS + entry * DAY_MS // 4
    return [
        NewRecord(b"value %d" % entry, b"key %d" % entry, base_ms),
        NewRecord(None, b"deleted", base_ms + 1),
        NewRecord(b"no key", None, -1),
        NewRecord(b"", b"", base_ms - DAY_MS),
        NewRecord(b"h", None, base_ms, (("a", b"1"), ("a", None), ("", b""), ("ü", b"\xff"))),
        NewRecord(b"x" * (entry * 50), b"long", base_ms + 2),
    ]


async def filled(**settings: int) -> tuple[World, ObjectLog]:
    """A log of ENTRIES entries, of every compression and timestamp type."""
    world = World(range_cache_bytes=0, **settings)
    log = await world.log()
    for entry in range(ENTRIES):
        codec = (0, GZIP, SNAPPY, LZ4, ZSTD)[entry % 5]
        append_time_ms = START_MS + entry if entry % 4 == 3 else None
        codec = 0 if append_time_ms is not None else codec
        await log.append(
            STREAM, new_batch(varied(entry), codec=codec, append_time_ms=append_time_ms)
        )
    return world, log


async def everything(log: ObjectLog) -> list[list[Logical]]:
    """What a read gives at each offset."""
    return [await read(log, offset) for offset in range(END + 1)]


SHAPES = {
    "one file": PLAIN,
    "row groups": Shape(row_group_rows=5),
    "one row each": Shape(row_group_rows=1),
    "files": Shape(row_group_rows=4, file_rows=9),
    "days": Shape(split=by_day),
    "days in row groups": Shape(split=by_day, row_group_rows=3),
    "days in files": Shape(split=by_day, row_group_rows=2, file_rows=5),
    "no statistics": Shape(row_group_rows=4, options=(("write_statistics", False),)),
    "as the pipeline writes": Shape(row_group_rows=9, options=tuple(WRITER_OPTIONS.items())),
    "no compression": Shape(row_group_rows=7, options=(("compression", "none"),)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("count", [1, 4, ENTRIES])
async def test_every_offset_reads_the_same_as_before(shape: Shape, count: int) -> None:
    world, log = await filled()
    before = await everything(log)
    await compact(world, count, shape)
    assert await everything(log) == before
    assert await everything(await world.log(world.second_store())) == before
    for max_bytes in (1, 300, 2_000, ALL):
        assert await consume(log, 0, max_bytes) == before[0]


@pytest.mark.parametrize("cache_bytes", [0, 1, 2_000, 1 << 20])
async def test_the_size_of_the_cache_changes_no_answer(cache_bytes: int) -> None:
    world, log = await filled(parquet_cache_bytes=cache_bytes)
    before = await everything(log)
    await compact(world, 8, Shape(split=by_day, row_group_rows=4))
    assert await everything(log) == before
    assert await consume(log, 0, 300) == before[0]


async def test_a_second_compaction_of_parquet_entries_changes_nothing() -> None:
    world, log = await filled()
    before = await everything(log)
    await compact(world, 3, Shape(row_group_rows=4))
    await compact(world, 3, PLAIN, first=1)
    assert await everything(log) == before
    await compact(world, 2, Shape(split=by_day))
    assert await everything(log) == before


async def test_in_the_middle_of_a_swap_every_offset_reads_the_same() -> None:
    world, log = await filled()
    before = await everything(log)
    await compact(world, 5, Shape(row_group_rows=7), clear=False)
    for one in (log, await world.log(world.second_store())):
        for offset in range(END):
            assert await consume(one, offset, ALL) == before[offset]


async def test_one_answer_holds_parquet_and_wal_batches_and_keeps_its_bytes() -> None:
    world, log = await filled()
    await compact(world, 3, Shape(row_group_rows=5))
    await compact(world, 2, Shape(row_group_rows=5), first=3)
    sizes = [
        len(found) for found in batches((await log.read(STREAM, 0, ALL, min_one=True)).buffers)
    ]
    for count in range(1, len(sizes) + 1):
        for spare in (0, 1):
            total = sum(sizes[:count])
            result = await log.read(STREAM, 0, total + spare, min_one=True)
            assert result.size_bytes == total
            assert len(ranges(result.buffers)) == count
    assert (await log.read(STREAM, 0, 1, min_one=True)).size_bytes == sizes[0]
    assert (await log.read(STREAM, 0, sizes[0] - 1, min_one=False)).size_bytes == 0
    assert (await log.read(STREAM, 0, 0, min_one=False)).size_bytes == 0


async def test_batches_have_the_same_boundaries_wherever_a_read_begins() -> None:
    world, log = await filled(parquet_cache_bytes=0)
    await compact(world, ENTRIES, Shape(split=by_day, row_group_rows=4))
    whole = ranges((await log.read(STREAM, 0, ALL, min_one=True)).buffers)
    for offset in range(END):
        found = ranges((await log.read(STREAM, offset, ALL, min_one=True)).buffers)
        assert found == [one for one in whole if one[1] >= offset]


async def test_large_row_groups_become_several_batches_and_slices() -> None:
    world = World(range_cache_bytes=0)
    log = await world.log()
    for number in range(40):
        await log.append(STREAM, batch(*(bytes([number]) * 10_000 for _ in range(10))))
    before = await read(log, 0)
    await compact(world, 40)
    result = await log.read(STREAM, 0, ALL, min_one=True)
    assert len(ranges(result.buffers)) > 10
    assert records(result.buffers) == before
    for offset in range(0, 400, 7):
        found = await read(log, offset, 1 << 20)
        assert len(found) > 50 or offset >= 350
        assert found == before[offset : offset + len(found)]
    assert await consume(log, 0, 1 << 20) == before


async def test_files_on_disk_are_decoded_in_threads(tmp_path: Path) -> None:
    threads = WorkThreads(2, "decode")
    world = World(range_cache_bytes=0, parquet_cache_bytes=4_000)
    world.runtime = dataclasses.replace(world.runtime, offload=ThreadOffload(threads))
    world.objects = FsObjectStore(tmp_path, world.runtime)  # type: ignore[assignment]
    log = await world.log()
    for entry in range(ENTRIES):
        await log.append(STREAM, new_batch(varied(entry)))
    before = await everything(log)
    await compact(world, 8, Shape(split=by_day, row_group_rows=5))
    together = await asyncio.gather(*(read(log, offset) for offset in range(END + 1)))
    assert together == before
    await log.close()
    await world.objects.close()
    threads.close()


# Removed records


async def test_a_range_without_records_is_an_empty_batch() -> None:
    world, log = await filled()
    before = await everything(log)
    await compact(world, 4, Shape(removed=frozenset(range(24))))
    result = await log.read(STREAM, 5, ALL, min_one=True)
    assert ranges(result.buffers)[0] == (0, 23)
    assert parse_header(batches(result.buffers)[0]).record_count == 0
    for offset in range(24):
        assert await read(log, offset) == before[24]
    assert await consume(log, 0, 1) == before[24]


async def test_a_whole_log_without_records_does_not_stall_a_consumer() -> None:
    world, log = await filled()
    await compact(world, ENTRIES, Shape(removed=frozenset(range(END))))
    assert await consume(log, 0, 1) == []
    assert await log.offset_for_time(STREAM, 0) is None
    assert await log.offset_of_max_timestamp(STREAM) is None


def test_a_void_range_too_wide_for_one_batch_is_several() -> None:
    found = void_batches(7, 7 + 5 * (MAX_OFFSET_DELTA + 1) // 2)
    assert [(one.base_offset, one.last_offset) for one in found.batches] == [
        (7, 7 + MAX_OFFSET_DELTA),
        (8 + MAX_OFFSET_DELTA, 8 + 2 * MAX_OFFSET_DELTA),
        (9 + 2 * MAX_OFFSET_DELTA, found.end - 1),
    ]


@pytest.mark.parametrize("name", ["row groups", "files", "days in files", "no statistics"])
@pytest.mark.parametrize(
    "removed",
    [{0, 1, 2}, {59}, set(range(10, 30)), set(range(0, END, 2)), set(range(END)) - {31}],
    ids=["start", "end", "middle", "every other", "all but one"],
)
async def test_gaps_belong_to_batches_around_them(name: str, removed: set[int]) -> None:
    world, log = await filled()
    before = await read(log, 0)
    await compact(world, ENTRIES, dataclasses.replace(SHAPES[name], removed=frozenset(removed)))
    left = [record for record in before if record.offset not in removed]
    for offset in range(END):
        assert await read(log, offset) == [one for one in left if one.offset >= offset]
    assert await consume(log, 0, 1) == left


# Log start, usage, retention


async def test_the_log_may_start_inside_a_parquet_entry() -> None:
    world, log = await filled()
    before = await everything(log)
    await compact(world, 5, Shape(split=by_day, row_group_rows=4))
    await log.delete_before(STREAM, 17)
    with pytest.raises(OffsetOutOfRange):
        await log.read(STREAM, 16, ALL, min_one=True)
    for offset in range(17, END):
        assert await read(log, offset) == before[offset]


@pytest.mark.parametrize("clear", [True, False], ids=["swapped", "in the middle of a swap"])
async def test_usage_counts_what_records_took_in_the_wal_and_files_as_objects(clear: bool) -> None:
    world, log = await filled()
    (before,) = await log.usage([STREAM])
    paths = await compact(world, 6, Shape(file_rows=10, removed=frozenset({3})), clear=clear)
    (usage,) = await log.usage([STREAM])
    assert usage.size_bytes == before.size_bytes
    assert usage.object_count == len(paths) + ENTRIES - 6
    assert usage.last_write_ms == before.last_write_ms


@pytest.mark.parametrize("count", [ENTRIES - 3, ENTRIES])
async def test_retention_drops_or_buries_parquet_entries(count: int) -> None:
    world, log = await filled()
    await compact(world, count)
    await log.delete_before(STREAM, -1)
    released = await release_entries(world.first_store, STREAM, END, log.save_producers, limit=100)
    assert released == ENTRIES - count + 1
    (tail,) = await world.first_store.scan(streams.index_prefix(STREAM), streams.index_end(STREAM))
    message = index_pb2.IndexEntry.FromString(tail.value)
    assert message.file_type == index_pb2.TOMBSTONE
    assert (len(message.parquet), message.wal_bytes) == (0, 0)
    assert (await log.read(STREAM, END, ALL, min_one=True)).size_bytes == 0
    (usage,) = await log.usage([STREAM])
    assert (usage.size_bytes, usage.object_count) == (0, 0)
    assert (await log.append(STREAM, batch(b"next"))).base_offset == END


def test_a_broker_that_reads_no_parquet_loads_no_pyarrow() -> None:
    code = (
        "import sys, towpath.log.object.log; "
        "assert not {'pyarrow', 'numba', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
