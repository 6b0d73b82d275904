"""Parses and checks the footer of a topic's Parquet file.

Importing this module loads pyarrow: do it, and call it, through `Runtime.offload`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from towpath.log.object.parquet_damage import BrokenParquet, broken_if
from towpath.log.object.parquet_layout import ByteRange, Footer, RowGroup
from towpath.log.object.stretches import DataFile
from towpath.log.object.thrift_compact import CompactReader, Struct
from towpath.objects.store import Buffer
from towpath.records.table import (
    ATTRIBUTES,
    HEADERS,
    KEY,
    MICROSECONDS_PER_MS,
    OFFSET,
    TIMESTAMP,
    VALUE,
    arrow_schema,
)

RECORD_COLUMNS = (OFFSET, TIMESTAMP, KEY, VALUE, HEADERS, ATTRIBUTES)
"""What a record is made of; who produced it is not sent to consumers."""
TIME_COLUMNS = (OFFSET, TIMESTAMP)
MAGIC = b"PAR1"
TRAILER_BYTES = 8
"""The footer's length and the magic at the end of a file."""
MAX_GAP_BYTES = 64 << 10
"""Unwanted bytes between two columns that are read along rather than read around."""
INT64_BYTES = 8
INT64_MAX = (1 << 63) - 1
WRONG_BYTES = (pa.ArrowException, AttributeError, LookupError, OSError, TypeError, ValueError)


class _Chunk(NamedTuple):
    """A leaf column of a row group."""

    name: str
    """Of the column that it is a part of."""
    start: int
    end: int
    bounds: tuple[int, int] | None
    """Of offsets and timestamps, if the footer has them."""


def parse_footer(file: DataFile, tail: Buffer) -> Footer:
    """The footer in the last `footer_bytes` of the file; BrokenParquet if it is not this file's."""
    length = int.from_bytes(tail[-TRAILER_BYTES : -len(MAGIC)], "little")
    broken_if(tail[-len(MAGIC) :] != MAGIC, "does not end as a Parquet file")
    broken_if(length + TRAILER_BYTES != len(tail), "has a footer of another size")
    try:
        groups = _row_groups(file, CompactReader(tail[:length]).struct())
        metadata = pq.read_metadata(pa.BufferReader(tail))
    except WRONG_BYTES as error:
        raise BrokenParquet(f"has a damaged footer: {error!r}") from error
    _check(file, groups)
    return Footer(file, groups, metadata)


def _row_groups(file: DataFile, footer: Struct) -> tuple[RowGroup, ...]:
    """The row groups of a `FileMetaData` that hold records. The numbers are parquet.thrift's."""
    # Typed columns come behind those that records are made of.
    found = _essence(footer[2])[: len(_expected())]
    broken_if(found != _expected(), "has other columns than a topic's table")
    leaves = sum(not element.get(5) for element in footer[2])
    groups = []
    for number, found in enumerate(footer[4]):
        broken_if(len(found[1]) != leaves, f"lacks columns in row group {number}")
        if found[3]:
            groups.append(_row_group(file, number, found[3], [_chunk(one) for one in found[1]]))
    return tuple(groups)


def _row_group(file: DataFile, number: int, count: int, chunks: list[_Chunk]) -> RowGroup:
    by_name = {chunk.name: chunk for chunk in chunks}
    offsets, times = by_name[OFFSET].bounds, by_name[TIMESTAMP].bounds
    first, last = offsets if offsets is not None else (file.first_offset, file.last_offset)
    return RowGroup(
        number,
        count,
        first,
        last,
        times[1] // MICROSECONDS_PER_MS if times is not None else INT64_MAX,
        _ranges(chunk for chunk in chunks if chunk.name in RECORD_COLUMNS),
        _ranges(chunk for chunk in chunks if chunk.name in TIME_COLUMNS),
        has_exact_offsets=offsets is not None,
    )


def _essence(elements: Iterable[Struct]) -> list[tuple[Any, ...]]:
    """What decides how the bytes of columns are read: type, repetition, name and children of each
    `SchemaElement` below the root. A wrong bit here would make other records of the same bytes."""
    return [tuple(element.get(field) for field in (1, 3, 4, 5)) for element in elements][1:]


@cache
def _expected() -> list[tuple[Any, ...]]:
    out = io.BytesIO()
    pq.write_table(arrow_schema().empty_table(), out)
    written = out.getvalue()
    length = int.from_bytes(written[-TRAILER_BYTES : -len(MAGIC)], "little")
    return _essence(CompactReader(written[-length - TRAILER_BYTES :]).struct()[2])


def _chunk(column: Struct) -> _Chunk:
    """A `ColumnChunk`: its `ColumnMetaData` is field 3, which an encrypted one lacks."""
    broken_if(3 not in column or 8 in column, "is encrypted")
    found: Struct = column[3]
    start = found[9]
    dictionary = found.get(11)
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    name = found[3][0].decode()
    bounds = _bounds(found.get(12, {})) if name in TIME_COLUMNS else None
    return _Chunk(name, start, start + found[7], bounds)


def _bounds(statistics: Struct) -> tuple[int, int] | None:
    """Least and greatest value of a column of 64-bit numbers, from its `Statistics`."""
    low, high = statistics.get(6), statistics.get(5)
    if low is None or high is None:
        return None
    broken_if(len(low) != INT64_BYTES or len(high) != INT64_BYTES, "has damaged statistics")
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)


def _ranges(chunks: Iterable[_Chunk]) -> tuple[ByteRange, ...]:
    """Where the column chunks lie, neighbours put together."""
    ranges: list[ByteRange] = []
    for start, end in sorted((chunk.start, chunk.end) for chunk in chunks):
        before = ranges[-1] if ranges else None
        if before is not None and start - before.end <= MAX_GAP_BYTES:
            ranges[-1] = ByteRange(before.position, max(before.end, end) - before.position)
        else:
            ranges.append(ByteRange(start, end - start))
    return tuple(ranges)


def _check(file: DataFile, groups: tuple[RowGroup, ...]) -> None:
    """What the index says of a file, its footer must say too."""
    broken_if(not groups, "holds no records")
    count = sum(group.record_count for group in groups)
    broken_if(count != file.record_count, f"holds {count} records instead of {file.record_count}")
    first = min(group.first_offset for group in groups)
    last = max(group.last_offset for group in groups)
    broken_if(
        (first, last) != (file.first_offset, file.last_offset),
        f"holds the offsets {first} to {last} instead of {file.first_offset} to {file.last_offset}",
    )
    for group in groups:
        _check_group(file, group)


def _check_group(file: DataFile, group: RowGroup) -> None:
    body_end = file.size_bytes - file.footer_bytes
    spans = group.last_offset - group.first_offset + 1
    broken_if(
        not 0 < group.record_count <= spans, f"has wrong statistics in row group {group.number}"
    )
    for at in group.columns:
        broken_if(
            not len(MAGIC) <= at.position < at.end <= body_end,
            f"has columns beyond its end in row group {group.number}",
        )
