"""The rows of a plan's parts as Arrow record batches of the table's columns.

Typed columns (`TopicPlan.typed`) are read from files that have them as they are now, and made of
the values otherwise: of the tail, and of files that are not rewritten yet. So they are the same
wherever a record lies.

Nothing here runs on an event loop: it reads objects and decodes them in the calling thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from towpath.errors import LogDamaged
from towpath.objects.range_file import RangeFile
from towpath.objects.worker import WorkerObjects
from towpath.reading.parts import FilePart, Part, WalPart
from towpath.reading.wal_batches import FEW_BYTES, open_batches
from towpath.reading.wanted import Wanted
from towpath.records import table
from towpath.records.batch_groups import BEYOND_BYTES, grouped
from towpath.records.few_to_arrow import decode_few
from towpath.records.to_arrow import decode_batches
from towpath.typed.columns import TypedColumns

GROUP_BYTES = 8 << 20
"""Decoded WAL bytes that become one record batch, about."""


def rows_of(
    objects: WorkerObjects,
    partition: int,
    part: Part,
    columns: Sequence[str] | None = None,
    typed: TypedColumns | None = None,
) -> Iterator[pa.RecordBatch]:
    """The part's rows in the order of their offsets: some columns of the table, or all of them, in
    the order asked. Raises ObjectNotFound if what was planned is gone since."""
    if isinstance(part, FilePart):
        return file_rows(objects, part, columns, typed)
    return wal_rows(objects, partition, [part], columns, typed)


def wal_rows(
    objects: WorkerObjects,
    partition: int,
    parts: Sequence[WalPart],
    columns: Sequence[str] | None = None,
    typed: TypedColumns | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of WAL parts that follow each other."""
    wanted = Wanted(columns, typed)
    schema = wanted.to_decode()
    is_few = _are_few(parts)
    for group in grouped(open_batches(objects, parts), GROUP_BYTES):
        if is_few:
            rows = decode_few(group, partition, schema)
        else:
            rows = decode_batches(group, partition, schema, GROUP_BYTES + BEYOND_BYTES)
        clipped = _between(rows, parts[0].start, parts[-1].end)
        if clipped.num_rows:
            yield wanted.of(clipped)


def file_rows(
    objects: WorkerObjects,
    part: FilePart,
    columns: Sequence[str] | None = None,
    typed: TypedColumns | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, row group by row group, of which those without any of the part's
    offsets are passed over."""
    # Not needed by those who read WAL objects only, and not there at once.
    import pyarrow.parquet as pq

    file = part.file
    wanted = Wanted(columns, typed)
    try:
        with pq.ParquetFile(RangeFile(objects, file.path, file.size_bytes)) as opened:
            if opened.metadata.num_rows != file.record_count:
                raise LogDamaged(f"{file.path} has {opened.metadata.num_rows} rows")
            at = opened.schema_arrow.get_field_index(table.OFFSET)
            read = wanted.to_read(file.value_stamp, opened.schema_arrow)
            for index in range(opened.num_row_groups):
                bounds = opened.metadata.row_group(index).column(at).statistics
                if bounds.max < part.start or bounds.min >= part.end:
                    continue
                rows = opened.read_row_group(index, columns=read, use_threads=False)
                for batch in rows.to_batches():
                    clipped = _between(batch, part.start, part.end)
                    if clipped.num_rows:
                        yield wanted.of(clipped)
    except pa.ArrowException as error:
        raise LogDamaged(f"{file.path} is damaged: {error}") from error


def _are_few(parts: Sequence[WalPart]) -> bool:
    return "numba" not in sys.modules and sum(part.size_bytes for part in parts) <= FEW_BYTES


def _between(rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """The rows whose offsets lie in `[start, end)`."""
    if not rows.num_rows:
        return rows
    column = rows.column(rows.schema.get_field_index(table.OFFSET))
    # `to_numpy` would give the same view, but loads pandas for it.
    data = column.buffers()[1]
    offsets = np.frombuffer(data, np.int64, len(column), column.offset * np.int64().itemsize)
    if offsets[0] >= start and offsets[-1] < end and _rises(offsets):
        return rows
    mask = (offsets >= start) & (offsets < end)
    return rows if mask.all() else rows.filter(pa.array(mask))


def _rises(offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    return bool(np.all(np.diff(offsets) > 0))
