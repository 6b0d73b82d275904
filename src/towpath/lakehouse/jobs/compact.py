"""The compaction job: a stream's WAL chunks become Parquet files.

A pure function of the job and the objects: the same job gives the same rows, whoever runs it and
however often. Memory is bounded whatever the job's size: a read of 8 MiB (and from a service what
is read ahead), a batch, the columns of one row group, and what the Parquet writer holds of it. (A
batch is held as a whole, however large it is.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from towpath.errors import CorruptBatch, LogDamaged
from towpath.lakehouse.jobs.parquet_out import ParquetOut
from towpath.lakehouse.jobs.read_ahead import read_in_order
from towpath.lakehouse.jobs.wal_ranges import ranges
from towpath.lakehouse.plan import Job, JobResult
from towpath.objects.worker import WorkerObjects
from towpath.records import table
from towpath.records.batch_groups import BEYOND_BYTES, grouped
from towpath.records.open_batch import OpenBatch, open_batch
from towpath.records.to_arrow import decode_batches

ROW_BYTES: Final = 52
"""What a record takes in the columns beside its key, value and headers."""


def run(job: Job, objects: WorkerObjects, attempt: str) -> JobResult:
    """Write the job's records to new files, which are durable when this returns.

    `attempt` makes the names unique. Whatever is wrong is raised: CorruptBatch and LogDamaged for
    damaged or missing records, ObjectStoreError for the store; files of a failed attempt belong to
    nobody.
    """
    began_s = time.process_time()
    schema = table.arrow_schema(job.field_ids)
    next_offset = job.start
    bytes_expected = job.row_group_bytes + BEYOND_BYTES
    with ParquetOut(job, objects, attempt) as out:
        for group in grouped(_batches(job, objects), job.row_group_bytes, ROW_BYTES):
            rows = decode_batches(group, job.partition, schema, bytes_expected)
            next_offset = _check_offsets(job, rows, next_offset)
            out.write(rows)
        if next_offset != job.end:
            raise LogDamaged(f"{job.title}: the batches end at {next_offset}")
        if out.new_columns is not None:
            return JobResult(job.task_id, new_columns=out.new_columns)
        files = out.finish()
    return JobResult(
        job.task_id,
        files,
        sum(file.record_count for file in files),
        job.input_bytes,
        time.process_time() - began_s,
    )


def _check_offsets(job: Job, rows: pa.RecordBatch, next_offset: int) -> int:
    """The offset after `rows`, which must follow each other from `next_offset` on."""
    offsets = rows.column(table.OFFSET).to_numpy()
    end = next_offset + len(offsets)
    if end > job.end or not np.array_equal(offsets, np.arange(next_offset, end)):
        raise LogDamaged(f"{job.title}: the records from {next_offset} on do not follow each other")
    return end


def _batches(job: Job, objects: WorkerObjects) -> Iterator[OpenBatch]:
    for part, content in read_in_order(objects, ranges(job.chunks)):
        data = memoryview(content)
        for base_offset, position, length in part.batches:
            at = position - part.position
            try:
                yield open_batch(data[at : at + length], base_offset)
            except CorruptBatch as error:
                raise CorruptBatch(f"{job.title}: {part.path} at {position}: {error}") from error
