"""Spark with its own Kafka source and sink, as it comes from Maven, against a broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.shared.spark_jars import spark_jars
from tests.integration.harness import spark_kafka_jobs as jobs
from tests.integration.harness.clients import Sent
from tests.integration.harness.table_rows import TableRow, row_of_pairs
from tests.integration.harness.user_spark import UserSpark


class SparkKafka:
    """One session in its own process. Options are those of Spark's Kafka source and sink. `place`
    is a directory where a stream keeps its checkpoint and its records."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.session = UserSpark(directory, {"spark.jars": ",".join(spark_jars())})

    def read(self, topic: str, **options: str) -> list[TableRow]:
        """The records of a batch query."""
        return self.read_in_tasks(topic, **options)[1]

    def read_in_tasks(self, topic: str, **options: str) -> tuple[int, list[TableRow]]:
        """The records of a batch query, and in how many tasks they are read."""
        tasks, found = self.session.call(jobs.read, options=self._source(topic, options))
        return tasks, _rows(found)

    def write(self, topic: str, records: Sequence[Sent], **options: str) -> None:
        """Send records with the sink."""
        rows = [(one.partition, one.key, one.value, one.headers or None) for one in records]
        self.session.call(jobs.write, options=self._sink(topic, options), rows=rows)

    def follow(self, topic: str, name: str, place: Path, **options: str) -> None:
        """Start a stream, or go on with the one whose checkpoint is there."""
        source = self._source(topic, options)
        self.session.call(jobs.follow, options=source, name=name, place=str(place))

    def drain(self, name: str) -> None:
        """Wait until a stream has read all there is."""
        self.session.call(jobs.drain, name=name)

    def stop_stream(self, name: str) -> None:
        """End a stream."""
        self.session.call(jobs.stop, name=name)

    def read_to_end(self, topic: str, name: str, place: Path, **options: str) -> list[int]:
        """Run a stream over what is there now; the rows of its batches."""
        source = self._source(topic, options)
        rows = self.session.call(jobs.read_to_end, options=source, name=name, place=str(place))
        return list(rows)

    def copy(self, topic: str, into: str, name: str, place: Path, **options: str) -> list[int]:
        """Run a stream from one topic to another over what is there now; the rows of its
        batches."""
        source, sink = self._source(topic, options), self._sink(into, {})
        rows = self.session.call(jobs.copy, options=source, name=name, place=str(place), into=sink)
        return list(rows)

    def kept(self, place: Path) -> list[TableRow]:
        """Every record that a stream has kept."""
        return _rows(self.session.call(jobs.kept, place=str(place)))

    def _source(self, topic: str, options: dict[str, str]) -> dict[str, str]:
        servers = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": topic}
        return {**servers, "includeHeaders": "true", **options}

    def _sink(self, topic: str, options: dict[str, str]) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._bootstrap,
            "topic": topic,
            "includeHeaders": "true",
            **options,
        }


def _rows(found: Sequence[tuple[Any, ...]]) -> list[TableRow]:
    return [
        row_of_pairs(partition, offset, timestamp_us, key, value, headers or ())
        for partition, offset, timestamp_us, key, value, headers in found
    ]
