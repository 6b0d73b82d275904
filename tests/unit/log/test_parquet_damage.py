"""A damaged Parquet file is an error that names it: never wrong records, never a gap."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.log.helpers_parquet import (
    ALL,
    Logical,
    Shape,
    by_day,
    compact,
    index_rows,
    new_batch,
    parquet_bytes,
    read,
)
from tests.unit.log_helpers import STREAM, World

from towpath.errors import LogDamaged, LogUnavailable
from towpath.log.object.log import ObjectLog
from towpath.metadata.proto.index_pb2 import IndexEntry
from towpath.objects.store import ObjectStoreError
from towpath.records.build import NewRecord

ROWS = 40
FLIPS = 100


IN_GROUPS = Shape(row_group_rows=10)


async def compacted(shape: Shape = IN_GROUPS) -> tuple[World, ObjectLog, str]:
    """A log whose records lie in one file, and its path."""
    world = World(range_cache_bytes=0, parquet_cache_bytes=0)
    log = await world.log()
    for at in range(0, ROWS, 10):
        new = [
            NewRecord(b"value %d" % (at + n), b"key", 1_000 + at + n, (("h", b"1"),))
            for n in range(10)
        ]
        await log.append(STREAM, new_batch(new))
    (path, *_) = await compact(world, ROWS // 10, shape)
    return world, log, path


async def content(world: World, path: str) -> bytearray:
    info = await world.objects.stat(path)
    return bytearray(await world.objects.read(path, 0, info.size_bytes))


async def replace(world: World, path: str, data: bytes | bytearray) -> None:
    await world.objects.delete(path)
    await world.objects.put(path, [data])


async def edit_entry(world: World, edit: Callable[[IndexEntry], None]) -> None:
    """Let the index say something else about the file."""
    row = (await index_rows(world.first_store))[-1]
    message = IndexEntry.FromString(row.value)
    edit(message)
    await world.first_store.put(row.key, message.SerializeToString())


async def replace_rows(world: World, path: str, rows: list[Logical]) -> None:
    """A file of other records, with an index entry that knows its size but not its rows."""
    data = parquet_bytes(rows, 10)
    await replace(world, path, data)

    def edit(message: IndexEntry) -> None:
        message.parquet[0].size_bytes = len(data)
        message.parquet[0].footer_bytes = int.from_bytes(data[-8:-4], "little") + 8

    await edit_entry(world, edit)


async def assert_damaged(log: ObjectLog, path: str) -> None:
    """Reads and time lookups raise LogDamaged that names the object."""
    with pytest.raises(LogDamaged, match=path):
        await log.read(STREAM, 0, ALL, min_one=True)
    with pytest.raises(LogDamaged, match=path):
        await log.offset_for_time(STREAM, 0)


async def test_a_file_without_magic_is_damaged() -> None:
    world, log, path = await compacted()
    data = await content(world, path)
    data[-1] ^= 1
    await replace(world, path, data)
    await assert_damaged(log, path)


@pytest.mark.parametrize("cut", [1, 100, 3_000])
async def test_a_truncated_file_is_damaged(cut: int) -> None:
    world, log, path = await compacted()
    data = await content(world, path)
    await replace(world, path, bytes(data[:-cut]))
    await assert_damaged(log, path)


async def test_a_page_with_a_wrong_checksum_is_damaged() -> None:
    world, log, path = await compacted(Shape(options=(("write_page_checksum", True),)))
    data = await content(world, path)
    metadata = pq.read_metadata(pa.BufferReader(bytes(data)))
    chunk = metadata.row_group(0).column(4)
    assert chunk.path_in_schema == "value"
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 3] ^= 1
    await replace(world, path, data)
    with pytest.raises(LogDamaged, match=path):
        await log.read(STREAM, 0, ALL, min_one=True)


@pytest.mark.parametrize(
    "field", ["record_count", "first_offset_delta", "last_offset_delta", "footer_bytes"]
)
@pytest.mark.parametrize("by", [1, 1_000_000])
async def test_an_index_that_says_something_else_is_damage(field: str, by: int) -> None:
    world, log, path = await compacted()

    def edit(message: IndexEntry) -> None:
        setattr(message.parquet[0], field, getattr(message.parquet[0], field) + by)

    await edit_entry(world, edit)
    await assert_damaged(log, path)


async def test_a_file_without_a_footer_is_damage() -> None:
    world, log, path = await compacted()
    await edit_entry(world, lambda message: message.parquet[0].ClearField("footer_bytes"))
    await assert_damaged(log, path)


@pytest.mark.parametrize("change", ["missing", "twice", "outside", "shifted"])
async def test_other_rows_are_damage(change: str) -> None:
    world, log, path = await compacted()
    rows = await read(log, 0)
    if change == "missing":
        rows = rows[:-1]
    elif change == "twice":
        rows[5] = rows[6]
    elif change == "outside":
        rows[-1] = rows[-1]._replace(offset=ROWS)
    else:
        rows = [row._replace(offset=row.offset + 1) for row in rows]
    await replace_rows(world, path, rows)
    with pytest.raises(LogDamaged, match=path):
        await log.read(STREAM, 0, ALL, min_one=True)


async def test_an_offset_in_two_files_is_damage() -> None:
    world, log, path = await compacted(Shape(split=lambda record: record.offset % 2))
    rows = [row for row in await read(log, 0) if row.offset % 2 == 0]
    rows[3] = rows[3]._replace(offset=5)
    await replace_rows(world, path, rows)
    with pytest.raises(LogDamaged, match="same offset"):
        await log.read(STREAM, 0, ALL, min_one=True)


async def test_a_table_of_other_columns_is_damage() -> None:
    world, log, path = await compacted()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"offset": list(range(ROWS))}), sink)
    data = sink.getvalue().to_pybytes()
    await replace(world, path, data)

    def edit(message: IndexEntry) -> None:
        message.parquet[0].size_bytes = len(data)
        message.parquet[0].footer_bytes = int.from_bytes(data[-8:-4], "little") + 8

    await edit_entry(world, edit)
    await assert_damaged(log, path)


async def test_a_failed_read_is_retriable() -> None:
    world, log, _ = await compacted()
    world.objects.read_errors.append(ObjectStoreError("slow down"))
    with pytest.raises(LogUnavailable, match="slow down"):
        await log.read(STREAM, 0, ALL, min_one=True)
    assert len(await read(log, 0)) == ROWS


async def test_damage_is_counted_and_leaves_the_rest_readable() -> None:
    world, log, path = await compacted(Shape(file_rows=20))
    before = await read(log, 20)
    data = await content(world, path)
    data[-1] ^= 1
    await replace(world, path, data)
    await assert_damaged(log, path)
    assert await read(log, 20) == before


@pytest.mark.parametrize("shape", [Shape(row_group_rows=10), Shape(7, split=by_day)])
@pytest.mark.parametrize("flipped", ["anywhere", "footer"])
async def test_a_flipped_byte_never_changes_what_is_read(shape: Shape, flipped: str) -> None:
    """With page checksums, as the pipeline writes them."""
    world, log, path = await compacted(shape)
    before = await read(log, 0)
    whole = await content(world, path)
    footer_at = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    chance = random.Random(1)
    damaged = []
    for _ in range(FLIPS):
        data = bytearray(whole)
        at = chance.randrange(0 if flipped == "anywhere" else footer_at, len(data))
        data[at] ^= 1 << chance.randrange(8)
        await replace(world, path, bytes(data))
        log = await world.log(world.second_store())
        try:
            assert await read(log, 0) == before
        except LogDamaged as error:
            damaged.append(str(error))
        await log.close()
    assert len(damaged) > FLIPS // 10
    assert all(path in error for error in damaged)
