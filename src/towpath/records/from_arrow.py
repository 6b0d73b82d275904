"""Rows of a topic's table become record batches again, to answer fetches from Parquet.

Key, value, headers, timestamp and offset of each record come back exactly; how records were
grouped, compressed and by which producer does not. `kernels/from_arrow.py` writes the bytes; it is
loaded when it is first needed: call this off the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

from towpath.records import build, table
from towpath.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

if TYPE_CHECKING:
    from types import ModuleType

LEADER_EPOCH: Final = 0
INT32_MAX: Final = (1 << 31) - 1
"""The greatest offset delta, and the greatest size of a batch."""

COLUMNS: Final = (
    table.OFFSET,
    table.TIMESTAMP,
    table.KEY,
    table.VALUE,
    table.HEADERS,
    table.ATTRIBUTES,
)
"""The columns that are needed; there may be others."""


class Rebuilt(NamedTuple):
    """A batch that covers the offsets `[base_offset, last_offset]`.

    `data` is a whole batch as a fetch answers it. Batches of one call share their memory: who keeps
    one for long should copy it.
    """

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    data: memoryview


def arrow_to_batches(
    rows: pa.RecordBatch | pa.Table, start: int, end: int, *, max_batch_bytes: int
) -> list[Rebuilt]:
    """Batches that hold `rows` and together cover `[start, end)` without gap or overlap.

    The rows' offsets ascend and lie within that range; where some are missing, the batch before
    them covers the gap, and ranges too wide for that get batches without records. A batch has
    `max_batch_bytes` at most, or one record. ValueError if the rows are not as they should be.
    """
    if not 0 <= start <= end:
        raise ValueError(f"[{start}, {end}) is no range of offsets")
    pieces = [_columns(piece) for piece in _pieces(rows)]
    _check_offsets([piece.offsets for piece in pieces], start, end)
    if not pieces:
        return [*_void(start, end)]
    bounds = [start, *[int(piece.offsets[0]) for piece in pieces[1:]], end]
    return [
        batch
        for piece, (piece_start, piece_end) in zip(pieces, pairwise(bounds), strict=True)
        for batch in _rebuild(piece, piece_start, piece_end, max_batch_bytes)
    ]


def empty_batch(base_offset: int, last_offset: int) -> bytes:
    """A batch without records that covers a range, as Kafka's log cleaner leaves one behind."""
    return build.empty_batch(base_offset, last_offset - base_offset, leader_epoch=LEADER_EPOCH)


def _void(start: int, end: int) -> Iterator[Rebuilt]:
    """Batches without records that cover `[start, end)`."""
    while start < end:
        last = min(end - 1, start + INT32_MAX)
        yield Rebuilt(start, last, NO_TIMESTAMP, memoryview(empty_batch(start, last)))
        start = last + 1


# Columns as numpy arrays, all read-only: kernels are compiled for that


class _Binary(NamedTuple):
    """A column of bytes. `valid` is a bitmap from bit `valid_from` on; without bytes nothing is
    null."""

    offsets: NDArray[np.int32]
    data: NDArray[np.uint8]
    valid: NDArray[np.uint8]
    valid_from: int


class _Columns(NamedTuple):
    offsets: NDArray[np.int64]
    timestamps_us: NDArray[np.int64]
    attributes: NDArray[np.int32]
    keys: _Binary
    values: _Binary
    list_offsets: NDArray[np.int32]
    header_keys: _Binary
    header_values: _Binary


def _pieces(rows: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    """The rows in as few pieces as possible, none of them empty. A table is in one piece unless a
    column has more than 2 GiB."""
    if isinstance(rows, pa.Table):
        table_rows = rows.select(COLUMNS)
        return [piece for piece in table_rows.combine_chunks().to_batches() if piece.num_rows]
    return [rows] if rows.num_rows else []


def _check_offsets(pieces: Sequence[NDArray[np.int64]], start: int, end: int) -> None:
    before = start - 1
    for offsets in pieces:
        if offsets[0] <= before or not (offsets[1:] > offsets[:-1]).all():
            raise ValueError(f"offsets do not ascend from {start} on")
        before = int(offsets[-1])
    if before >= end:
        raise ValueError(f"offset {before} is beyond the end of [{start}, {end})")


def _columns(rows: pa.RecordBatch) -> _Columns:
    list_offsets = _plain(rows.column(table.HEADERS).offsets, pa.int32(), np.int32)
    # Rows cut out of many more have offsets into the headers of them all.
    list_offsets, first = list_offsets - list_offsets[0], int(list_offsets[0])
    list_offsets.flags.writeable = False
    pairs = rows.column(table.HEADERS).values.slice(first, int(list_offsets[-1]))
    return _Columns(
        _plain(rows.column(table.OFFSET), pa.int64(), np.int64),
        _plain(rows.column(table.TIMESTAMP), table.TIMESTAMP_TYPE, np.int64),
        _plain(rows.column(table.ATTRIBUTES), pa.int32(), np.int32),
        _binary(rows.column(table.KEY), pa.binary()),
        _binary(rows.column(table.VALUE), pa.binary()),
        list_offsets,
        _binary(pairs.field(table.HEADER_KEY.rpartition(".")[2]), pa.string()),
        _binary(pairs.field(table.HEADER_VALUE.rpartition(".")[2]), pa.binary()),
    )


def _expect(column: pa.Array, kind: pa.DataType) -> None:
    if column.type != kind:
        raise ValueError(f"a column has the type {column.type}, not {kind}")


def _plain(column: pa.Array, kind: pa.DataType, number: type[Any]) -> NDArray[Any]:
    _expect(column, kind)
    if column.null_count:
        raise ValueError(f"a column of {kind} has nulls")
    values = _array(column.buffers()[1], number)
    return values[column.offset : column.offset + len(column)]


def _binary(column: pa.Array, kind: pa.DataType) -> _Binary:
    _expect(column, kind)
    valid, offsets, data = column.buffers()
    bounds = _array(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return _Binary(
        # Arrow may leave out the only offset of an empty column.
        bounds if len(bounds) else np.frombuffer(bytes(4), np.int32),
        _array(data, np.uint8),
        _array(valid if column.null_count else None, np.uint8),
        column.offset,
    )


def _array(buffer: pa.Buffer | None, number: type[Any]) -> NDArray[Any]:
    if buffer is None:
        return np.frombuffer(b"", number)
    return np.frombuffer(memoryview(buffer).toreadonly(), number)


# Batches


def _rebuild(columns: _Columns, start: int, end: int, max_batch_bytes: int) -> list[Rebuilt]:
    """Batches for at least one row that cover `[start, end)`."""
    # numba takes a second to load, and is not wanted in a process that encodes nothing.
    from towpath.records.kernels import from_arrow as kernels

    rebuilt: list[Rebuilt] = []
    first_offset = int(columns.offsets[0])
    if first_offset - start > INT32_MAX:
        rebuilt += _void(start, first_offset)
        start = first_offset
    plans, data = _encode(kernels, columns, start, max_batch_bytes)
    bases = [plan[kernels.BASE_OFFSET] for plan in plans]
    at = 0
    for plan, next_base in zip(plans, [*bases[1:], end], strict=True):
        size_bytes = plan[kernels.SIZE_BYTES]
        base_offset = plan[kernels.BASE_OFFSET]
        last_offset = min(next_base - 1, base_offset + INT32_MAX)
        batch = data[at : at + size_bytes]
        _seal(kernels, batch, plan, last_offset)
        max_timestamp_ms = plan[kernels.MAX_TIMESTAMP_MS]
        rebuilt.append(Rebuilt(base_offset, last_offset, max_timestamp_ms, batch.toreadonly()))
        rebuilt += _void(last_offset + 1, next_base)
        at += size_bytes
    return rebuilt


def _encode(
    kernels: ModuleType, columns: _Columns, start: int, max_batch_bytes: int
) -> tuple[list[list[int]], memoryview]:
    """How the rows are divided, and all batches behind each other, their headers left blank."""
    rows = _spans(kernels, columns.keys, columns.values, len(columns.offsets))
    header_count = len(columns.header_keys.offsets) - 1
    headers = _spans(kernels, columns.header_keys, columns.header_values, header_count)
    sizes = np.empty(len(rows), np.int64)
    kernels.header_sizes(columns.list_offsets, headers, sizes)
    batches = np.empty((len(rows), kernels.BATCH_FIELDS), np.int64)
    count = kernels.plan(
        columns.offsets,
        columns.timestamps_us,
        columns.attributes,
        rows,
        sizes,
        start,
        max_batch_bytes,
        batches,
    )
    batches = batches[:count]
    if batches[:, kernels.SIZE_BYTES].max() > INT32_MAX:
        raise OverflowError("a batch would have more than 2 GiB")
    data = np.empty(batches[:, kernels.SIZE_BYTES].sum(), np.uint8)
    filled = kernels.encode(
        data,
        batches,
        columns.offsets,
        columns.timestamps_us,
        sizes,
        rows,
        columns.keys.data,
        columns.values.data,
        columns.list_offsets,
        headers,
        columns.header_keys.data,
        columns.header_values.data,
    )
    if not filled:
        raise ValueError("the columns' offsets point beyond their bytes")
    return batches.tolist(), data.data


def _spans(kernels: ModuleType, keys: _Binary, values: _Binary, count: int) -> NDArray[np.int64]:
    """Where keys and values, of records or of headers, lie in their columns."""
    spans = np.empty((count, kernels.SPAN_FIELDS), np.int64)
    kernels.spans(keys.offsets, keys.valid, keys.valid_from, spans, kernels.KEY_AT)
    kernels.spans(values.offsets, values.valid, values.valid_from, spans, kernels.VALUE_AT)
    return spans


def _seal(kernels: ModuleType, batch: memoryview, plan: Sequence[int], last_offset: int) -> None:
    """Write a batch's header before its records, the checksum last."""
    HEADER.pack_into(
        batch,
        0,
        plan[kernels.BASE_OFFSET],
        len(batch) - LENGTH_PREFIX_BYTES,
        LEADER_EPOCH,
        MAGIC,
        0,
        plan[kernels.APPEND_TIME_BIT],
        last_offset - plan[kernels.BASE_OFFSET],
        plan[kernels.BASE_TIMESTAMP_MS],
        plan[kernels.MAX_TIMESTAMP_MS],
        NO_PRODUCER_ID,
        build.NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        plan[kernels.END_ROW] - plan[kernels.FIRST_ROW],
    )
    checksum = crc32c(batch[ATTRIBUTES_AT:])
    batch[CRC_AT:ATTRIBUTES_AT] = checksum.to_bytes(4, "big")
