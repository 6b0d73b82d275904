"""Reads a job's Parquet files, row group by row group, in the order of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from towpath.errors import LogDamaged
from towpath.lakehouse.plan import ParquetFile
from towpath.objects.range_file import RangeFile
from towpath.objects.worker import WorkerObjects
from towpath.records import table


def order(files: Sequence[ParquetFile], *, split_by_day: bool) -> list[ParquetFile]:
    """The files in the order in which their rows may be written again.

    Files of one day follow each other by offset, and each day has files of its own.
    """
    if split_by_day:
        return sorted(
            files, key=lambda file: (file.min_timestamp_ms // 86_400_000, file.first_offset)
        )
    ordered = sorted(files, key=lambda file: file.first_offset)
    for before, after in pairwise(ordered):
        if after.first_offset <= before.last_offset:
            raise LogDamaged(f"{before.path} and {after.path} overlap")
    return ordered


def row_groups(
    objects: WorkerObjects, file: ParquetFile, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The file's row groups, some columns or all; raises LogDamaged if rows are missing."""
    try:
        with pq.ParquetFile(RangeFile(objects, file.path, file.size_bytes)) as opened:
            if opened.metadata.num_rows != file.record_count:
                raise LogDamaged(f"{file.path} has {opened.metadata.num_rows} rows")
            for index in range(opened.num_row_groups):
                yield opened.read_row_group(index, columns=columns, use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        raise LogDamaged(f"{file.path} is damaged: {error}") from error


def conform(rows: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows under the table's present schema: its field ids, its order of columns."""
    arranged: pa.Table = rows.select(schema.names).cast(schema)
    batches: list[pa.RecordBatch] = arranged.to_batches()
    return batches


def check_order(file: ParquetFile, rows: pa.Table, above: int) -> int:
    """The last offset of the rows, which must rise, above `above`, within the file's bounds."""
    offsets = rows.column(table.OFFSET).to_numpy()
    if len(offsets) == 0:
        return above
    rises = bool(np.all(np.diff(offsets) > 0)) and offsets[0] > above
    if not rises or offsets[0] < file.first_offset or offsets[-1] > file.last_offset:
        raise LogDamaged(f"{file.path}: its offsets are not in order")
    return int(offsets[-1])
