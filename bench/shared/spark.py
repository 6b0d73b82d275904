"""A Spark session as a user has one, on the Java that the pipeline uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.shared.spark_jars import spark_jars
from pyspark_towpath import prepare

PLAIN, TUNED = "plain", "tuned"
MASTER = "local[*]"
HEAP = "4g"
TUNED_JVM_OPTIONS = "-XX:+UseParallelGC"
TUNED_CONSUMER = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": "8388608",
}
"""With Kafka's defaults the source takes 500 records of what it was sent and asks for the rest
again: 100 B records then cost half as much CPU time again, and the broker several times."""


def open_session(directory: Path, style: str = PLAIN, conf: Mapping[str, str] | None = None) -> Any:
    """A session with everything it writes below `directory`, and the jars of Spark's Kafka source.
    The style is `plain`, with everything as it comes besides the heap, or `tuned`. All are prepared
    as the README says, which changes nothing for sources and sinks without Python."""
    from pyspark.sql import SparkSession

    prepare()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.jars": ",".join(spark_jars()),
        "spark.driver.memory": HEAP,
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(conf or {}),
    }
    if style == TUNED:
        settings["spark.driver.extraJavaOptions"] = TUNED_JVM_OPTIONS
    builder = SparkSession.builder.master(MASTER).appName("towpath-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
