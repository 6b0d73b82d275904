"""The rewrite job: small Parquet files become few of the target size. The records stay the same."""

from __future__ import annotations

import time

from towpath.errors import LogDamaged
from towpath.lakehouse.jobs.parquet_in import check_order, conform, order, row_groups
from towpath.lakehouse.jobs.parquet_out import ParquetOut
from towpath.lakehouse.plan import Job, JobResult
from towpath.objects.worker import WorkerObjects
from towpath.records import table
from towpath.records.column_names import RAW


def run(job: Job, objects: WorkerObjects, attempt: str) -> JobResult:
    """Write the records of the job's files to new files; as `compact.run` in everything else."""
    began_s = time.process_time()
    schema = table.arrow_schema(job.field_ids)
    with ParquetOut(job, objects, attempt) as out:
        for file in order(job.files, split_by_day=job.split_by_day):
            above = file.first_offset - 1
            for rows in row_groups(objects, file, RAW):
                above = check_order(file, rows, above)
                for batch in conform(rows, schema):
                    out.write(batch)
        if out.new_columns is not None:
            return JobResult(job.task_id, new_columns=out.new_columns)
        files = out.finish()
    record_count = sum(file.record_count for file in files)
    if record_count != sum(file.record_count for file in job.files):
        raise LogDamaged(f"{job.title}: {record_count} records were written")
    return JobResult(
        job.task_id, files, record_count, job.input_bytes, time.process_time() - began_s
    )
