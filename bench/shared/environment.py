"""What the pipeline was measured on and with."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from bench.environment import describe_environment
from bench.errors import BenchError
from bench.shared.spark_jars import ICEBERG
from towpath.lakehouse.java import JavaNotFound, find_java


def describe(directory: Path) -> dict[str, object]:
    """Machine, versions and date. BenchError without a Java for Spark."""
    try:
        java = find_java(directory / "java")
    except JavaNotFound as error:
        raise BenchError(str(error)) from error
    return {
        **describe_environment(directory),
        "pyspark": version("pyspark"),
        "pyiceberg": version("pyiceberg"),
        "pyarrow": version("pyarrow"),
        "duckdb": version("duckdb"),
        "spark_java": java.version,
        "iceberg": ICEBERG,
        "load": round(os.getloadavg()[0], 1),
    }
