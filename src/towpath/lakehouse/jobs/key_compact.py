"""The key compaction job: of every key only the newest record stays, at its offset.

As Kafka's log cleaner does: a record without a value marks its key as deleted; it stays, too, until
it has been seen for long enough (`tombstones_below`), and then it goes. Offsets never change, so
the files have gaps; the index entry still covers the whole range.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from towpath.lakehouse.jobs import survivors
from towpath.lakehouse.jobs.parquet_in import check_order, conform, order, row_groups
from towpath.lakehouse.jobs.parquet_out import ParquetOut
from towpath.lakehouse.jobs.survivors import FiledSurvivors, KeysOutgrowMemory, Survivors
from towpath.lakehouse.plan import Job, JobResult
from towpath.objects.worker import WorkerObjects
from towpath.records import table
from towpath.records.column_names import RAW


def run(job: Job, objects: WorkerObjects, attempt: str) -> JobResult:
    """Write the survivors of the job's files to new files; as `compact.run` in everything else."""
    began_s = time.process_time()
    try:
        keep = _survivors(job, objects)
    except KeysOutgrowMemory:
        return JobResult(job.task_id, needs_shuffle=True)
    schema = table.arrow_schema(job.field_ids)
    with ParquetOut(job, objects, attempt) as out:
        for file in order(job.files, split_by_day=job.split_by_day):
            above = file.first_offset - 1
            for rows in row_groups(objects, file, RAW):
                above = check_order(file, rows, above)
                for batch in conform(_kept(job, rows, keep), schema):
                    out.write(batch)
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


def _survivors(job: Job, objects: WorkerObjects) -> Survivors:
    if job.survivors:
        return FiledSurvivors(objects, job.survivors)
    return survivors.find(job, objects)


def _kept(job: Job, rows: pa.Table, keep: Survivors) -> pa.Table:
    """The rows that stay: survivors, without the markers whose time is over."""
    offsets = rows.column(table.OFFSET).to_numpy()
    mask = keep.among(offsets)
    if job.tombstones_below > 0:
        is_marker = np.asarray(rows.column(table.VALUE).is_null())
        mask &= ~(is_marker & (offsets < job.tombstones_below))
    return rows if mask.all() else rows.filter(pa.array(mask))
