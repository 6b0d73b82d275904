"""Writes a job's rows into Parquet data files, row group by row group.

Only what every reader knows is used: PLAIN and RLE_DICTIONARY encoding, version 1 pages, zstd.
(DELTA_* would save a few bytes per record, but vectorized readers learned it late or never.)
Dictionaries are tried where a column repeats itself. Statistics are kept for the columns of
numbers; those of keys and values would cost time and copy long values into the footer.

Where the topic declares what its values are, the typed columns are made here, for every job alike:
always from the values themselves, so a file never passes on what another declaration made.
"""

from __future__ import annotations

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from towpath.lakehouse.jobs.teller import Teller
from towpath.lakehouse.plan import ColumnSizes, Job, ParquetFile
from towpath.objects.worker import WorkerObjects
from towpath.records import table
from towpath.records.column_names import RAW
from towpath.typed.arrow import leaf_paths
from towpath.typed.columns import TypedColumns
from towpath.typed.declaration import NO_STAMP
from towpath.typed.table import Attach, with_typed
from towpath.typed.types import BINARY, Field, Fields, Scalar

US_PER_DAY: Final = 86_400_000_000
OPEN_FILES_MAX: Final = 16
"""With a file per day: how many are open at once. The one that waited longest is finished first."""
PENDING_BYTES_MAX: Final = 64 << 20
"""With a file per day: rows that wait for their row group to be full. Beyond it the largest is
written as it is."""

NUMBERS: Final = (
    table.PARTITION,
    table.OFFSET,
    table.TIMESTAMP,
    table.PRODUCER_ID,
    table.PRODUCER_EPOCH,
    table.BASE_SEQUENCE,
    table.ATTRIBUTES,
)
REPEATED: Final = tuple(name for name in NUMBERS if name not in (table.OFFSET, table.TIMESTAMP))
"""The same for all records of a batch, so a dictionary makes them vanish."""
WRITER_OPTIONS: Final = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": list(REPEATED),
    "write_statistics": list(NUMBERS),
    # The batches' own checksums end here: fetches check these instead.
    "write_page_checksum": True,
    # Everything that the Arrow schema says, the Parquet schema says too.
    "store_schema": False,
}


class ParquetOut:
    """The files of one attempt at a job. Use it as a context: files that are unfinished when it is
    left with an exception never appear. At most a few row groups are in memory."""

    def __init__(self, job: Job, objects: WorkerObjects, attempt: str) -> None:
        self._job = job
        self._objects = objects
        self._prefix = f"{job.output_dir}{job.task_id}-{attempt}-{job.part}"
        raw = table.arrow_schema(job.field_ids)
        self._attach = Attach(raw, job.typed) if job.typed is not None else None
        self._schema = with_typed(raw, job.typed)
        self._pending: dict[int | None, list[pa.RecordBatch]] = {}
        self._pending_bytes: Counter[int | None] = Counter()
        self._open: OrderedDict[int | None, _DataFile] = OrderedDict()
        self._opened_count = 0
        self._finished: list[ParquetFile] = []
        self._written_records = 0
        self._teller = Teller(job)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows of the raw columns, whose offsets are above all earlier ones.

        They are written once a row group is full, so they must stay unchanged. Once `new_columns`
        are found nothing is written any more; the rest is only looked at.
        """
        if self._attach is not None:
            rows = self._attach(rows)
            if self._attach.new_columns is not None:
                self._abort(RuntimeError("there are new columns"))
                return
        for day, part in self._by_day(rows):
            self._pending.setdefault(day, []).append(part)
            self._pending_bytes[day] += part.nbytes
            if self._pending_bytes[day] >= self._job.row_group_bytes:
                self._write_pending(day)
        while self._pending_bytes.total() > PENDING_BYTES_MAX:
            self._write_pending(self._pending_bytes.most_common(1)[0][0])

    @property
    def new_columns(self) -> Fields | None:
        """The columns to infer, if values have fields that are in no column yet."""
        return self._attach.new_columns if self._attach is not None else None

    def finish(self) -> tuple[ParquetFile, ...]:
        """Write the rest and complete the files; they are durable when this returns."""
        for day in list(self._pending):
            self._write_pending(day)
        for day in list(self._open):
            self._finish_file(day)
        return tuple(sorted(self._finished, key=lambda file: file.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._teller.close()
        self._abort(error or RuntimeError("the files were not finished"))

    def _abort(self, reason: BaseException) -> None:
        self._pending.clear()
        self._pending_bytes.clear()
        while self._open:
            self._open.popitem()[1].abort(reason)

    def _by_day(self, rows: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        """The rows of each UTC day, in their order; all of them for None if days do not count."""
        if not rows.num_rows:
            return
        if not self._job.split_by_day:
            yield None, rows
            return
        days = _microseconds(rows) // US_PER_DAY
        order = np.argsort(days, kind="stable")
        ordered = days[order]
        if ordered[0] == ordered[-1]:
            yield int(ordered[0]), rows
            return
        starts = np.flatnonzero(np.diff(ordered)) + 1
        for indices in np.split(order, starts):
            # A copy: a slice would keep the memory of all the others.
            yield int(days[indices[0]]), rows.take(pa.array(indices))

    def _write_pending(self, day: int | None) -> None:
        """Write what waits as row groups of about the size asked for, going on to the next file
        where one is full."""
        rows = pa.Table.from_batches(self._pending.pop(day), self._schema)
        group_count = max(1, round(self._pending_bytes.pop(day) / self._job.row_group_bytes))
        group_rows = -(-rows.num_rows // group_count)
        for first in range(0, rows.num_rows, group_rows):
            file = self._file(day)
            group = rows.slice(first, group_rows)
            file.write(group)
            self._written_records += group.num_rows
            self._teller.wrote(self._written_records, self._opened_count)
            if file.size_bytes >= self._job.target_file_bytes:
                self._finish_file(day)

    def _file(self, day: int | None) -> _DataFile:
        found = self._open.get(day)
        if found is not None:
            self._open.move_to_end(day)
            return found
        if len(self._open) >= OPEN_FILES_MAX:
            self._finish_file(next(iter(self._open)))
        path = f"{self._prefix}-{self._opened_count:05d}.parquet"
        file = _DataFile(self._objects, path, self._schema, day, self._job.typed)
        self._open[day] = file
        self._opened_count += 1
        return file

    def _finish_file(self, day: int | None) -> None:
        # It stays among the open ones until it is complete, so that a failure aborts it.
        self._finished.append(self._open[day].finish())
        del self._open[day]


class _DataFile:
    """One file that is being written."""

    def __init__(
        self,
        objects: WorkerObjects,
        path: str,
        schema: pa.Schema,
        day: int | None,
        typed: TypedColumns | None,
    ) -> None:
        self._path = path
        self._day = day
        self._stamp = NO_STAMP if typed is None else typed.stamp
        self._typed = {} if typed is None else counted(typed)
        self._present: Counter[str] = Counter()
        self._metadata: list[pq.FileMetaData] = []
        with contextlib.ExitStack() as stack:
            self._sink = stack.enter_context(objects.create(path))
            self._writer = pq.ParquetWriter(
                self._sink, schema, metadata_collector=self._metadata, **writer_options(typed)
            )
            self._object = stack.pop_all()

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return self._sink.tell()

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._present.update(_present(rows, self._typed))

    def finish(self) -> ParquetFile:
        """Complete the file and make it durable."""
        footer_at = self.size_bytes
        self._writer.close()
        size_bytes = self.size_bytes
        self._object.close()
        return self._describe(self._metadata[0], size_bytes, size_bytes - footer_at)

    def abort(self, error: BaseException) -> None:
        """Leave nothing behind."""
        # The writer would write its footer when it is collected, into a sink that is closed then.
        with contextlib.suppress(Exception):
            self._writer.close()
        self._object.__exit__(type(error), error, error.__traceback__)

    def _describe(self, footer: pq.FileMetaData, size_bytes: int, footer_bytes: int) -> ParquetFile:
        groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
        first_offset, last_offset = _bounds(groups, table.OFFSET)
        first_us, last_us = _bounds(groups, table.TIMESTAMP)
        return ParquetFile(
            self._path,
            size_bytes,
            footer_bytes,
            footer.num_rows,
            first_offset,
            last_offset,
            first_us // table.MICROSECONDS_PER_MS,
            last_us // table.MICROSECONDS_PER_MS,
            self._day,
            _columns(groups, self._present, self._typed),
            tuple(_start(group) for group in groups),
            self._stamp,
        )


def _microseconds(rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return rows.column(table.TIMESTAMP).cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


def writer_options(typed: TypedColumns | None) -> dict[str, Any]:
    """How files with these columns are written. Typed columns repeat themselves more often than
    not, and people look for their values."""
    if typed is None:
        return dict(WRITER_OPTIONS)
    statistics = [field.name for field in counted(typed).values() if field.type != BINARY]
    return {
        **WRITER_OPTIONS,
        "use_dictionary": [*REPEATED, *leaf_paths(typed.all_fields)],
        "write_statistics": [*NUMBERS, *statistics],
    }


def counted(typed: TypedColumns) -> dict[str, Field]:
    """The typed columns whose values are counted, those without parts, by their names here. A name
    may mean another column tomorrow, the id does not."""
    return {f"#{field.id}": field for field in typed.all_fields if isinstance(field.type, Scalar)}


def _present(rows: pa.Table, typed: Mapping[str, Field]) -> dict[str, int]:
    """How many values of each leaf are not null."""
    present = {
        name: rows.num_rows - rows.column(name).null_count for name in RAW if name != table.HEADERS
    }
    for key, field in typed.items():
        present[key] = rows.num_rows - rows.column(field.name).null_count
    headers = [chunk.flatten() for chunk in rows.column(table.HEADERS).chunks]
    present[table.HEADER_KEY] = sum(len(pairs) for pairs in headers)
    present[table.HEADER_VALUE] = sum(len(pairs) - pairs.field(1).null_count for pairs in headers)
    return present


def _leaves(group: pq.RowGroupMetaData) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    """A row group's columns by dotted path, without the level that Parquet puts into a list."""
    for index in range(group.num_columns):
        column = group.column(index)
        yield column.path_in_schema.replace(".list.", "."), column


def _bounds(groups: list[pq.RowGroupMetaData], name: str) -> tuple[int, int]:
    """The least and the greatest value of a column of numbers."""
    statistics = [dict(_leaves(group))[name].statistics for group in groups]
    return min(found.min_raw for found in statistics), max(found.max_raw for found in statistics)


def _columns(
    groups: list[pq.RowGroupMetaData], present: Counter[str], typed: Mapping[str, Field]
) -> dict[str, ColumnSizes]:
    sizes: Counter[str] = Counter()
    values: Counter[str] = Counter()
    keys = {field.name: key for key, field in typed.items()}
    for group in groups:
        for path, column in _leaves(group):
            if path.split(".", 1)[0] not in RAW and path not in keys:
                continue
            name = keys.get(path, path)
            sizes[name] += column.total_compressed_size
            values[name] += column.num_values
    return {
        name: ColumnSizes(sizes[name], values[name], values[name] - present[name]) for name in sizes
    }


def _start(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    return first.dictionary_page_offset or first.data_page_offset  # type: ignore[no-any-return]
