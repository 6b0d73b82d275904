"""The compaction job: a stream's WAL chunks become Parquet files.

A pure function of the job and the objects: the same job gives the same rows, whoever runs it and
however often. Memory is bounded whatever the job's size: a read of 8 MiB (and from a service what
is read ahead), the batches of one row group, and what the Parquet writer holds of it. (A batch is
held as a whole, however large it is.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from towpath.errors import CorruptBatch, LogDamaged
from towpath.lakehouse.jobs.parquet_out import ParquetOut
from towpath.lakehouse.jobs.read_ahead import read_in_order
from towpath.lakehouse.plan import Job, JobResult, WalChunk
from towpath.objects.worker import WorkerObjects
from towpath.records import table
from towpath.records.to_arrow import OpenBatch, decode_batches, open_batch

READ_BYTES_MAX: Final = 8 << 20
READ_GAP_BYTES_MAX: Final = 4096
"""Reading so many bytes for nothing costs less than another read."""
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
    with ParquetOut(job, objects, attempt) as out:
        for group in _groups(job, objects):
            rows = decode_batches(group, job.partition, schema)
            next_offset = _check_offsets(job, rows, next_offset)
            out.write(rows)
        if next_offset != job.end:
            raise LogDamaged(f"{job.title}: the batches end at {next_offset}")
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


def _groups(job: Job, objects: WorkerObjects) -> Iterator[list[OpenBatch]]:
    """Batches for one row group each, checked and decompressed."""
    group: list[OpenBatch] = []
    size_bytes = 0
    for batch in _batches(job, objects):
        group.append(batch)
        size_bytes += len(batch.payload) + ROW_BYTES * batch.header.record_count
        if size_bytes >= job.row_group_bytes:
            yield group
            group = []
            size_bytes = 0
    if group:
        yield group


def _batches(job: Job, objects: WorkerObjects) -> Iterator[OpenBatch]:
    for part, content in read_in_order(objects, ranges(job.chunks)):
        data = memoryview(content)
        for base_offset, position, length in part.batches:
            at = position - part.position
            try:
                yield open_batch(data[at : at + length], base_offset)
            except CorruptBatch as error:
                raise CorruptBatch(f"{job.title}: {part.path} at {position}: {error}") from error


class Range(NamedTuple):
    """Bytes of one object that are read at once, with the batches they hold."""

    path: str
    position: int
    length: int
    batches: Sequence[tuple[int, int, int]]


def ranges(chunks: Sequence[WalChunk]) -> Iterator[Range]:
    """Reads of `READ_BYTES_MAX` at most (or one batch) that cover all batches in order.

    Neighbours are read together; what lies between two batches is a few bytes of their lengths.
    """
    for chunk in chunks:
        batches: list[tuple[int, int, int]] = []
        start = end = 0
        for batch in chunk.batches:
            _, position, length = batch
            near = 0 <= position - end <= READ_GAP_BYTES_MAX
            if batches and not (near and position + length - start <= READ_BYTES_MAX):
                yield Range(chunk.path, start, end - start, batches)
                batches = []
            if not batches:
                start = position
            batches.append(batch)
            end = position + length
        if batches:
            yield Range(chunk.path, start, end - start, batches)
