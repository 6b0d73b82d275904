"""Processes with Spark sessions that stay warm between measurements, ours and the other one."""

from __future__ import annotations

from pathlib import Path

from bench.shared.session import Session


class TowpathSession(Session):
    """A compactor on a data directory, for which everything is due."""

    def __init__(self, data_dir: Path, log_file: Path) -> None:
        super().__init__("bench.compact.towpath_round", [str(data_dir)], log_file)


class SparkSession(Session):
    """Spark with its Kafka source and Iceberg's writer, in a directory of its own; for the style
    see `spark_round`."""

    def __init__(self, directory: Path, bootstrap: str, style: str, log_file: Path) -> None:
        arguments = [str(directory), bootstrap, style]
        super().__init__("bench.compact.spark_round", arguments, log_file)
