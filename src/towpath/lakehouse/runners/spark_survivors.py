"""Key compaction whose keys outgrow a worker: Spark SQL finds which records survive.

Workers read the keys of the job's files, Spark groups them (on disk where they outgrow its memory,
too), and workers write the surviving offsets, sorted, to files that the job then reads piece by
piece. Files and keys go through our own object access, so that Spark needs no jar for it.
"""

from __future__ import annotations

import functools
import pickle
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from towpath.lakehouse.plan import Job, ParquetFile

ROWS_PER_BATCH = 50_000
ROWS_PER_GROUP = 1_000_000
KEYS = "key binary, offset long"
WRITTEN = "path string, size long, first long"


class Source(NamedTuple):
    """What a worker needs to read the keys of one file."""

    job: Job
    file: ParquetFile


def find_survivors(session: Any, job: Job, tasks: int) -> Job:
    """The job with files that name its survivors. `session` is a SparkSession of either kind."""
    import pyarrow as pa

    bare = replace(job, files=(), chunks=())
    sources = pa.table({"source": [pickle.dumps(Source(bare, file)) for file in job.files]})
    width = max(1, -(-(job.end - job.start) // tasks))
    bucket = f"(offset - {job.start}) div {width} as bucket"
    written = (
        session.createDataFrame(sources)
        .repartition(max(1, min(tasks, len(job.files))))
        .mapInArrow(read_keys, KEYS)
        # Names and SQL, no column functions: those of the two kinds of session do not mix.
        .groupBy("key")
        .agg({"offset": "max"})
        .selectExpr("`max(offset)` as offset")
        .selectExpr("offset", bucket)
        .repartition(tasks, "bucket")
        .sortWithinPartitions("offset")
        .select("offset")
        .mapInArrow(functools.partial(write_offsets, bare), WRITTEN)
        .collect()
    )
    files = sorted((row["first"], row["path"], row["size"]) for row in written)
    return replace(job, survivors=tuple((path, size_bytes) for _, path, size_bytes in files))


def read_keys(batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: key and offset of every record that has a key."""
    import pyarrow as pa

    from towpath.lakehouse.jobs.parquet_in import row_groups
    from towpath.lakehouse.runners.execute import objects_of
    from towpath.records import table

    schema = pa.schema([(table.KEY, pa.binary()), (table.OFFSET, pa.int64())])
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            source: Source = pickle.loads(packed)
            for rows in row_groups(objects_of(source.job), source.file, schema.names):
                keyed = rows.filter(rows.column(table.KEY).is_valid())
                yield from keyed.select(schema.names).cast(schema).to_batches(ROWS_PER_BATCH)


def write_offsets(job: Job, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: write a partition's sorted offsets to a file, and tell its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from towpath.lakehouse.runners.execute import objects_of

    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return
    schema = pa.schema([("offset", pa.int64())])
    path = f"{job.output_dir}{job.task_id}-survivors-{uuid.uuid4().hex}.parquet"
    with objects_of(job).create(path) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            waiting, count = [first], first.num_rows
            for batch in rows:
                waiting.append(batch)
                count += batch.num_rows
                if count >= ROWS_PER_GROUP:
                    writer.write_table(pa.Table.from_batches(waiting).cast(schema))
                    waiting, count = [], 0
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting).cast(schema))
        size_bytes = sink.tell()
    lowest = first.column(0)[0].as_py()
    yield pa.record_batch({"path": [path], "size": [size_bytes], "first": [lowest]})
