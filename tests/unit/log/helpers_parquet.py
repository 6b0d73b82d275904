"""Shared by the tests of Parquet reads: records to compare, and a compaction made by hand.

The compaction reads WAL objects with the Python walk and writes with pyarrow, so that it has
nothing in common with the kernels that read its files again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c
from tests.unit.log_helpers import STREAM, World

from towpath.log.object import entries
from towpath.log.object.entries import Entry
from towpath.log.object.log import ObjectLog
from towpath.metadata.keys import streams
from towpath.metadata.proto import index_pb2
from towpath.metadata.store import KeyValue, MetadataStore
from towpath.objects.store import Buffer, ObjectStore
from towpath.records.batch import (
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTES_AT,
    BatchInfo,
    parse_header,
)
from towpath.records.build import NewRecord, build_batch, encode_record, seal
from towpath.records.table import arrow_schema
from towpath.records.walk import iterate

ALL = 1 << 30
DAY_MS = 86_400_000
PARTITION = 0


class Logical(NamedTuple):
    """A record as consumers see it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    append_time: bool


@dataclass(frozen=True)
class Shape:
    """How the rows of a compaction become files."""

    row_group_rows: int = 1_000
    file_rows: int = 1 << 30
    split: Callable[[Logical], Hashable] = lambda record: 0
    removed: frozenset[int] = frozenset()
    options: tuple[tuple[str, Any], ...] = (("compression", "zstd"), ("write_page_checksum", True))


PLAIN = Shape()


def by_day(record: Logical) -> Hashable:
    """Files as a table that is split by day has them."""
    return record.timestamp_ms // DAY_MS


def new_batch(
    records: Sequence[NewRecord], *, codec: int = 0, append_time_ms: int | None = None
) -> BatchInfo:
    """A valid batch; with `append_time_ms` as a topic with LogAppendTime stores it."""
    times = [record.timestamp_ms for record in records]
    if append_time_ms is None:
        return BatchInfo(build_batch(records, codec=codec), len(records), min(times), max(times))
    payload = [encode_record(record, at, 0) for at, record in enumerate(records)]
    data = seal(
        b"".join(payload),
        attributes=ATTRIBUTE_LOG_APPEND_TIME,
        record_count=len(records),
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=times[0],
        max_timestamp_ms=append_time_ms,
    )
    return BatchInfo(data, len(records), append_time_ms, append_time_ms)


# What a read gave


def batches(buffers: Iterable[Buffer]) -> list[bytes]:
    """The batches of an answer; asserts that they are whole, with the right checksum."""
    data = b"".join(bytes(part) for part in buffers)
    found = []
    at = 0
    while at < len(data):
        header = parse_header(data, at)
        whole = data[at : at + header.size_bytes]
        assert len(whole) == header.size_bytes
        assert crc32c(whole[ATTRIBUTES_AT:]) == header.crc
        assert header.leader_epoch == 0
        found.append(whole)
        at += header.size_bytes
    return found


def ranges(buffers: Iterable[Buffer]) -> list[tuple[int, int]]:
    """First and last offset of each batch; asserts that they follow each other without gaps."""
    headers = [parse_header(batch) for batch in batches(buffers)]
    found = [(head.base_offset, head.base_offset + head.last_offset_delta) for head in headers]
    for (_, last), (base, _) in pairwise(found):
        assert base == last + 1
    return found


def records(buffers: Iterable[Buffer]) -> list[Logical]:
    """The records of an answer."""
    return [record for batch in batches(buffers) for record in records_of(batch)]


def records_of(batch: bytes) -> list[Logical]:
    """The records of a batch."""
    header = parse_header(batch)
    append_time = bool(header.attributes & ATTRIBUTE_LOG_APPEND_TIME)
    return [
        Logical(
            header.base_offset + item.offset_delta,
            item.timestamp_ms,
            item.key,
            item.value,
            item.headers,
            append_time,
        )
        for item in iterate(batch)
    ]


async def read(log: ObjectLog, offset: int, max_bytes: int = ALL) -> list[Logical]:
    """What a consumer at an offset gets: records from it on. Asserts that it does not stall."""
    result = await log.read(STREAM, offset, max_bytes, min_one=True)
    found = ranges(result.buffers)
    if offset < result.bounds.end:
        assert found[0][0] <= offset <= found[0][1]
        assert found[-1][1] < result.bounds.end
    return [record for record in records(result.buffers) if record.offset >= offset]


async def consume(log: ObjectLog, offset: int, max_bytes: int) -> list[Logical]:
    """Everything from an offset on, fetch by fetch, as a consumer goes on."""
    found: list[Logical] = []
    while True:
        result = await log.read(STREAM, offset, max_bytes, min_one=True)
        if not result.buffers:
            return found
        found += [record for record in records(result.buffers) if record.offset >= offset]
        offset = ranges(result.buffers)[-1][1] + 1


def make_deaf(log: ObjectLog) -> None:
    """Let a broker's caches hear of no change any more, as if its watch were far behind."""
    log._index.close()


# Compaction


async def index_rows(store: MetadataStore) -> list[KeyValue]:
    """The stream's index entries."""
    return await store.scan(
        streams.index_prefix(STREAM), streams.index_end(STREAM), limit=1_000_000
    )


async def compact(
    world: World, count: int, shape: Shape = PLAIN, *, first: int = 0, clear: bool = True
) -> list[str]:
    """Replace `count` index entries by one Parquet entry; the paths of its files.

    Without `clear` it stops in the middle of the swap: the other entries stay.
    """
    rows = (await index_rows(world.first_store))[first : first + count]
    replaced = [entries.decode(row) for row in rows]
    found = [
        record
        for entry in replaced
        for record in await stored_records(world.objects, entry)
        if record.offset not in shape.removed
    ]
    message = await write_entry(world, replaced[0].start, replaced[-1].end, found, shape)
    message.wal_bytes = sum(entry.chunk_length + entry.wal_bytes for entry in replaced)
    await world.first_store.put(rows[-1].key, message.SerializeToString(), expect=rows[-1].version)
    if clear:
        for row in rows[:-1]:
            await world.first_store.delete(row.key, expect=row.version)
    return [file.path for file in message.parquet]


async def delete_unnamed(world: World) -> None:
    """Delete every object that no entry names, as the collectors do after the grace."""
    named = b"".join([row.value for row in await index_rows(world.first_store)])
    for info in [info async for info in world.objects.list("")]:
        if info.path.encode() not in named:
            await world.objects.delete(info.path)


async def write_entry(
    world: World, start: int, end: int, found: Sequence[Logical], shape: Shape
) -> index_pb2.IndexEntry:
    """Write the files of `[start, end)`; the entry that names them."""
    times = [record.timestamp_ms for record in found] or [-1]
    message = index_pb2.IndexEntry(
        version=entries.ENTRY_VERSION,
        file_type=index_pb2.PARQUET,
        record_count=end - start,
        created_at_ms=1,
        min_timestamp_ms=min(times),
        max_timestamp_ms=max(times),
    )
    files: dict[Hashable, list[Logical]] = {}
    for record in found:
        files.setdefault(shape.split(record), []).append(record)
    for some in files.values():
        for at in range(0, len(some), shape.file_rows):
            chosen = some[at : at + shape.file_rows]
            message.parquet.append(await write_file(world, start, chosen, shape))
    return message


async def write_file(
    world: World, start: int, chosen: Sequence[Logical], shape: Shape
) -> index_pb2.ParquetFile:
    """Write one file."""
    data = parquet_bytes(chosen, shape.row_group_rows, **dict(shape.options))
    file_id = world.runtime.uuid4()
    path = f"towpath/tables/t/{file_id}.parquet"
    await world.objects.put(path, [data])
    times = [record.timestamp_ms for record in chosen]
    return index_pb2.ParquetFile(
        parquet_id=file_id.bytes,
        path=path,
        size_bytes=len(data),
        record_count=len(chosen),
        first_offset_delta=chosen[0].offset - start,
        last_offset_delta=chosen[-1].offset - start,
        min_timestamp_ms=min(times),
        max_timestamp_ms=max(times),
        footer_bytes=int.from_bytes(data[-8:-4], "little") + 8,
    )


def parquet_bytes(chosen: Sequence[Logical], row_group_rows: int, **options: Any) -> bytes:
    """A Parquet file of these records."""
    out = io.BytesIO()
    pq.write_table(to_table(chosen), out, row_group_size=row_group_rows, **options)
    return out.getvalue()


def to_table(chosen: Sequence[Logical]) -> pa.Table:
    """The rows of these records."""
    schema = arrow_schema()
    nothing = [None] * len(chosen)
    times = pa.array([record.timestamp_ms * 1000 for record in chosen], pa.int64())
    columns = {
        "partition": [PARTITION] * len(chosen),
        "offset": [record.offset for record in chosen],
        "timestamp": times.cast(schema.field("timestamp").type),
        "key": [record.key for record in chosen],
        "value": [record.value for record in chosen],
        "headers": [
            [{"key": name, "value": content} for name, content in record.headers]
            for record in chosen
        ],
        "producer_id": nothing,
        "producer_epoch": nothing,
        "base_sequence": nothing,
        "attributes": [ATTRIBUTE_LOG_APPEND_TIME if record.append_time else 0 for record in chosen],
    }
    return pa.table(columns, schema=schema)


async def stored_records(objects: ObjectStore, entry: Entry) -> list[Logical]:
    """The records of an entry, read from its objects without the reader under test."""
    if not entry.is_parquet:
        found = []
        for row in entry.rows:
            batch = bytearray(await objects.read(entry.path, row.position, row.length))
            batch[:8] = row.base_offset.to_bytes(8, "big")
            found += records_of(bytes(batch))
        return found
    rows = []
    for file in [file for part in entry.stretches for file in part.files]:
        data = await objects.read(file.path, 0, file.size_bytes)
        rows += pq.read_table(pa.BufferReader(data)).to_pylist()
    return sorted(_from_row(row) for row in rows)


def _from_row(row: dict[str, Any]) -> Logical:
    timestamp_ms = int(row["timestamp"].timestamp() * 1000)
    headers = tuple((header["key"], header["value"]) for header in row["headers"])
    append_time = bool(row["attributes"] & ATTRIBUTE_LOG_APPEND_TIME)
    return Logical(row["offset"], timestamp_ms, row["key"], row["value"], headers, append_time)
