"""A process that copies Kafka topics to Iceberg tables as a user of Spark does today:
`python -m bench.compact.spark_round DIRECTORY BOOTSTRAP STYLE`.

Each question is `{"topic": ..., "records": ...}`: a batch read of the whole topic with Spark's
Kafka source, written with Iceberg's own writer to a new table of the same columns, in a catalog of
plain files, with 4 GiB of heap. The style is `plain`, with everything else as it comes, or `tuned`,
the fastest that was found: each task reads one Kafka partition and so writes one partition of the
table, without shuffle or sort; zstd at level 1 and no statistics of keys and values, as ours; a
consumer that takes all it is sent; ParallelGC.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from bench.shared.answering import failure, next_question, take_stdout
from bench.shared.process_tree import tree_cpu_seconds
from bench.shared.spark import TUNED, TUNED_CONSUMER, open_session

CATALOG = "spark.sql.catalog.lake"
TABLE = "lake.bench.records"
COLUMNS = """\
partition int NOT NULL, offset bigint NOT NULL, timestamp timestamp NOT NULL, key binary,
value binary, headers array<struct<key: string NOT NULL, value: binary>> NOT NULL,
producer_id bigint, producer_epoch int, base_sequence int, attributes int NOT NULL"""
FORMAT = {"format-version": "2"}
TUNED_PROPERTIES = {
    **FORMAT,
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.metadata.metrics.column.key": "none",
    "write.metadata.metrics.column.value": "none",
}
EXPRESSIONS = (
    "partition",
    "offset",
    "timestamp",
    "key",
    "value",
    "coalesce(headers, cast(array() as array<struct<key:string,value:binary>>)) AS headers",
    "cast(null AS bigint) AS producer_id",
    "cast(null AS int) AS producer_epoch",
    "cast(null AS int) AS base_sequence",
    "0 AS attributes",
)


class CopyFailed(Exception):
    """The table does not hold what the topic does."""


def main(directory: Path, bootstrap: str, style: str) -> None:
    """Answer until stdin ends."""
    answer = take_stdout()
    spark = open_catalog(directory, style)
    try:
        answer({"ready": True})
        while (question := next_question()) is not None:
            try:
                answer(copy(spark, bootstrap, question, style))
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it.
                answer(failure(error))
    finally:
        spark.stop()
        shutil.rmtree(directory / "local", ignore_errors=True)


def open_catalog(directory: Path, style: str) -> Any:
    """A Spark session with a catalog of plain files below `directory`."""
    conf = {
        CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{CATALOG}.type": "hadoop",
        f"{CATALOG}.warehouse": (directory / "lake").as_uri(),
    }
    return open_session(directory, style, conf)


def copy(spark: Any, bootstrap: str, question: dict[str, Any], style: str) -> dict[str, Any]:
    """Copy a topic to a new table; the wall clock and CPU time of this process and its JVM."""
    records: int = question["records"]
    chosen = TUNED_PROPERTIES if style == TUNED else FORMAT
    properties = ", ".join(f"'{name}'='{value}'" for name, value in chosen.items())
    spark.sql(f"DROP TABLE IF EXISTS {TABLE} PURGE")
    spark.sql(
        f"CREATE TABLE {TABLE} ({COLUMNS}) USING iceberg PARTITIONED BY (partition) "
        f"TBLPROPERTIES ({properties})"
    )
    own = os.getpid()
    cpu_before_s, started = tree_cpu_seconds(own), time.monotonic()
    source = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", question["topic"])
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true")
        .options(**(TUNED_CONSUMER if style == TUNED else {}))
    )
    source.load().selectExpr(*EXPRESSIONS).writeTo(TABLE).append()
    seconds = time.monotonic() - started
    cpu_s = tree_cpu_seconds(own) - cpu_before_s
    (summary,) = spark.sql(f"SELECT summary FROM {TABLE}.snapshots").collect()
    told = summary[0]
    if int(told["added-records"]) != records:
        raise CopyFailed(f"{told['added-records']} of {records} records are in the table")
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_s,
        "files": int(told["added-data-files"]),
        "file_bytes": int(told["added-files-size"]),
        "records": records,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
