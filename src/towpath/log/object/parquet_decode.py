"""Turns row groups of Parquet files back into record batches, and looks for times in them.

Importing this module loads pyarrow and numba: do it, and call it, through `Runtime.offload`. What
is read is checked against footer and index: wrong rows are BrokenParquet, never an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from towpath.log.object.parquet_batches import Batches, cover
from towpath.log.object.parquet_damage import BrokenParquet, broken_if
from towpath.log.object.parquet_file import FetchedFile
from towpath.log.object.parquet_footer import RECORD_COLUMNS, TIME_COLUMNS
from towpath.log.object.parquet_layout import ByteRange, Footer, RowGroup
from towpath.records.from_arrow import arrow_to_batches
from towpath.records.table import MICROSECONDS_PER_MS, OFFSET, TIMESTAMP, arrow_schema

MAX_BATCH_BYTES = 256 << 10
"""Small enough that four fit a consumer's usual 1 MiB, large enough to cost little each."""
SLICE_BYTES = 1 << 20
"""An answer holds on to the memory of the slices that it comes from."""
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
WRONG_BYTES = (pa.ArrowException, ArithmeticError, LookupError, OSError, TypeError, ValueError)
"""What pyarrow and the kernel raise when bytes are not what they should be."""

Numbers = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Checked rows of a row group, in the order of their offsets."""

    table: pa.Table
    offsets: Numbers

    def size_bytes(self) -> int:
        """What they take in memory."""
        return int(self.table.nbytes + self.offsets.nbytes)


def read_rows(
    footer: Footer, group: RowGroup, ranges: Sequence[ByteRange], buffers: Sequence[memoryview]
) -> Rows:
    """The records of a row group; `buffers` are the bytes of its columns at `ranges`."""
    with _as_damage():
        table = _read(footer, group, ranges, buffers, RECORD_COLUMNS)
        rows = Rows(table, table.column(OFFSET).to_numpy())
        if not _increases(rows.offsets):
            order = np.argsort(rows.offsets)
            rows = Rows(table.take(order), rows.offsets[order])
        _check_offsets(group, rows.offsets)
        return rows


def build(groups: Sequence[Rows], start: int, end: int) -> list[Batches]:
    """The batches of `[start, end)` out of the row groups that hold its offsets, in slices of
    about SLICE_BYTES, each with memory of its own. The same rows give the same batches."""
    with _as_damage():
        table, offsets = _merge([_slice(rows, start, end) for rows in groups])
        step = max(1, table.num_rows * SLICE_BYTES // max(table.nbytes, 1))
        slices = []
        for at in range(0, max(table.num_rows, 1), step):
            following = int(offsets[at + step]) if at + step < table.num_rows else end
            rows = table.slice(at, step)
            batches = arrow_to_batches(rows, start, following, max_batch_bytes=MAX_BATCH_BYTES)
            slices.append(cover(start, following, batches))
            start = following
        return slices


def _merge(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts in the order of their offsets."""
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    offsets = np.concatenate([part.offsets for part in parts])
    order = np.argsort(offsets)
    broken_if(not _increases(offsets[order]), "and another file hold the same offset")
    return Rows(table.take(order), offsets[order])


def first_at_or_after(
    footer: Footer,
    group: RowGroup,
    ranges: Sequence[ByteRange],
    buffers: Sequence[memoryview],
    from_offset: int,
    timestamp_ms: int,
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the group's first record, from an offset on, that is not older
    than the timestamp."""
    bound = min(max(timestamp_ms * MICROSECONDS_PER_MS, INT64_MIN), INT64_MAX)

    def choose(offsets: Numbers, times_us: Numbers) -> int:
        candidates = np.flatnonzero(times_us >= bound)
        return int(candidates[np.argmin(offsets[candidates])]) if len(candidates) else -1

    return _search(footer, group, ranges, buffers, from_offset, choose)


def greatest(
    footer: Footer,
    group: RowGroup,
    ranges: Sequence[ByteRange],
    buffers: Sequence[memoryview],
    from_offset: int,
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the record, from an offset on, that has the group's greatest
    timestamp; the first of equals."""

    def choose(offsets: Numbers, times_us: Numbers) -> int:
        times_ms = times_us // MICROSECONDS_PER_MS
        candidates = np.flatnonzero(times_ms == times_ms.max())
        return int(candidates[np.argmin(offsets[candidates])])

    return _search(footer, group, ranges, buffers, from_offset, choose)


def _search(
    footer: Footer,
    group: RowGroup,
    ranges: Sequence[ByteRange],
    buffers: Sequence[memoryview],
    from_offset: int,
    choose: Callable[[Numbers, Numbers], int],
) -> tuple[int, int] | None:
    with _as_damage():
        table = _read(footer, group, ranges, buffers, TIME_COLUMNS)
        offsets = table.column(OFFSET).to_numpy()
        times_us = table.column(TIMESTAMP).cast(pa.int64()).to_numpy()
        _check_offsets(group, np.sort(offsets))
    wanted = offsets >= from_offset
    offsets, times_us = offsets[wanted], times_us[wanted]
    at = choose(offsets, times_us) if len(offsets) else -1
    return None if at < 0 else (int(offsets[at]), int(times_us[at]) // MICROSECONDS_PER_MS)


def _read(
    footer: Footer,
    group: RowGroup,
    ranges: Sequence[ByteRange],
    buffers: Sequence[memoryview],
    names: Sequence[str],
) -> pa.Table:
    source = FetchedFile(footer.file.size_bytes, ranges, buffers)
    with pq.ParquetFile(
        source, metadata=footer.metadata, pre_buffer=False, page_checksum_verification=True
    ) as file:
        table = file.read_row_group(group.number, columns=list(names), use_threads=False)
    _check_types(table, names)
    broken_if(table.num_rows != group.record_count, f"holds other rows in row group {group.number}")
    return table


def _check_types(table: pa.Table, names: Sequence[str]) -> None:
    """Types say what the bytes mean, for example in which unit a timestamp is."""
    wanted = arrow_schema()
    for name in names:
        broken_if(
            table.schema.field(name).type != wanted.field(name).type,
            f"has the type {table.schema.field(name).type} in the column {name}",
        )
        broken_if(
            not wanted.field(name).nullable and table.column(name).null_count > 0,
            f"has nulls in the column {name}",
        )


def _check_offsets(group: RowGroup, offsets: Numbers) -> None:
    first, last = int(offsets[0]), int(offsets[-1])
    bounds = (group.first_offset, group.last_offset)
    in_bounds = bounds[0] <= first and last <= bounds[1]
    broken_if(
        not in_bounds or (group.has_exact_offsets and (first, last) != bounds),
        f"holds the offsets {first} to {last} in row group {group.number}",
    )
    broken_if(not _increases(offsets), f"holds an offset twice in row group {group.number}")


def _slice(rows: Rows, start: int, end: int) -> Rows:
    first, last = np.searchsorted(rows.offsets, (start, end))
    if first == 0 and last == len(rows.offsets):
        return rows
    return Rows(rows.table.slice(first, last - first), rows.offsets[first:last])


def _increases(offsets: Numbers) -> bool:
    return bool(np.all(offsets[1:] > offsets[:-1]))


@contextmanager
def _as_damage() -> Iterator[None]:
    """Whatever pyarrow and the kernel find wrong with the bytes is the file's fault."""
    try:
        yield
    except MemoryError:
        raise
    except WRONG_BYTES as error:
        raise BrokenParquet(f"cannot be decoded: {error}") from error
