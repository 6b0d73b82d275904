"""Spark's own Kafka source and sink against the broker, beside what confluent-kafka sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, end_offset
from tests.integration.harness.clients import produce_all, producer, varied_records
from tests.integration.harness.spark_kafka import SparkKafka
from tests.integration.harness.table_engines import consume_with_confluent
from tests.integration.harness.table_rows import TableRow, assert_same, row_of_sent

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 3
FIRST_MS = 1_700_000_000_000
STEP_MS = 10
"""Between two records of `varied_records`."""
EARLIEST, LATEST = -2, -1
"""Spark's numbers for the bounds of a log."""


@pytest.fixture(scope="module")
def spark(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkKafka]:
    started = SparkKafka(tmp_path_factory.mktemp("spark-kafka"), shared_broker.bootstrap)
    try:
        started.session.start()
        yield started
    finally:
        started.session.stop()


def produce(bootstrap: str, topic: str, count: int, tag: str = "r", **settings: Any) -> None:
    for partition in range(PARTITIONS):
        records = varied_records(count, partition=partition, tag=tag)
        produce_all(producer(bootstrap, **settings), topic, records)


def consumed(bootstrap: str, topic: str) -> list[TableRow]:
    """Everything, as confluent-kafka sees it."""
    count = sum(end_offset(bootstrap, topic, partition) for partition in range(PARTITIONS))
    return consume_with_confluent(bootstrap, topic, PARTITIONS, count)


def per_partition(topic: str, *values: int) -> str:
    return json.dumps({topic: {str(at): value for at, value in enumerate(values)}})


@pytest.fixture(scope="module")
def filled(shared_broker: Broker) -> str:
    """A topic with batches of several producers."""
    topic = create_topic(shared_broker.bootstrap, partitions=PARTITIONS)
    for compression in ("none", "lz4", "zstd"):
        produce(shared_broker.bootstrap, topic, 100, compression, compression_type=compression)
    return topic


class TestBatchReads:
    """Everything, a range of offsets, a range of times."""

    def test_everything(self, spark: SparkKafka, bootstrap: str, filled: str) -> None:
        expected = consumed(bootstrap, filled)
        assert len(expected) == 900
        assert_same(spark.read(filled), expected)

    def test_a_range_of_offsets(self, spark: SparkKafka, bootstrap: str, filled: str) -> None:
        seen = spark.read(
            filled,
            startingOffsets=per_partition(filled, 10, EARLIEST, 250),
            endingOffsets=per_partition(filled, 130, 7, LATEST),
        )
        bounds = [(10, 130), (0, 7), (250, 300)]
        expected = [
            row
            for row in consumed(bootstrap, filled)
            if bounds[row.partition][0] <= row.offset < bounds[row.partition][1]
        ]
        assert_same(seen, expected)

    def test_ranges_that_are_divided(self, spark: SparkKafka, bootstrap: str, filled: str) -> None:
        tasks, seen = spark.read_in_tasks(filled, minPartitions="9")
        assert tasks == 9
        assert_same(seen, consumed(bootstrap, filled))

    def test_one_time_for_all_partitions(
        self, spark: SparkKafka, bootstrap: str, filled: str
    ) -> None:
        """A time means the first offset whose record is not older: the later producers' times begin
        again, and what follows that offset belongs to the answer whatever its time."""
        seen = spark.read(filled, startingTimestamp=str(FIRST_MS + 95 * STEP_MS))
        expected = [row for row in consumed(bootstrap, filled) if row.offset >= 95]
        assert_same(seen, expected)

    def test_times_by_partition(self, spark: SparkKafka, bootstrap: str, filled: str) -> None:
        starts = [FIRST_MS + at * STEP_MS for at in (50, 0, 99)]
        ends = [FIRST_MS + at * STEP_MS for at in (60, 1, 99)]
        seen = spark.read(
            filled,
            startingOffsetsByTimestamp=per_partition(filled, *starts),
            endingOffsetsByTimestamp=per_partition(filled, *ends),
        )
        bounds = [(50, 60), (0, 1), (99, 99)]
        expected = [
            row
            for row in consumed(bootstrap, filled)
            if bounds[row.partition][0] <= row.offset < bounds[row.partition][1]
        ]
        assert_same(seen, expected)


class TestStreams:
    """Structured streaming with a checkpoint: no record is lost, none comes twice."""

    def test_stopped_and_killed_in_between(
        self, spark: SparkKafka, bootstrap: str, tmp_path: Path
    ) -> None:
        topic = create_topic(bootstrap, partitions=PARTITIONS)
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "70"}
        produce(bootstrap, topic, 100, "first")
        spark.follow(topic, "followed", tmp_path, **options)
        spark.drain("followed")
        assert_same(spark.kept(tmp_path), consumed(bootstrap, topic))
        produce(bootstrap, topic, 50, "while it runs")
        spark.drain("followed")
        spark.stop_stream("followed")
        produce(bootstrap, topic, 50, "while it is stopped")
        spark.follow(topic, "followed", tmp_path, **options)
        spark.drain("followed")
        assert_same(spark.kept(tmp_path), consumed(bootstrap, topic))
        produce(bootstrap, topic, 400, "while it is killed")
        spark.session.kill()
        spark.session.start()
        spark.follow(topic, "followed", tmp_path, **options)
        spark.drain("followed")
        spark.stop_stream("followed")
        assert_same(spark.kept(tmp_path), consumed(bootstrap, topic))

    def test_batches_are_as_large_as_asked(
        self, spark: SparkKafka, bootstrap: str, filled: str, tmp_path: Path
    ) -> None:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
        batches = spark.read_to_end(filled, "bounded", tmp_path, **options)
        assert sum(batches) == 900
        assert max(batches) <= 100
        assert_same(spark.kept(tmp_path), consumed(bootstrap, filled))

    def test_a_stream_that_begins_at_a_time(
        self, spark: SparkKafka, bootstrap: str, filled: str, tmp_path: Path
    ) -> None:
        start = {"startingTimestamp": str(FIRST_MS + 95 * STEP_MS)}
        spark.read_to_end(filled, "timed", tmp_path, **start)
        expected = [row for row in consumed(bootstrap, filled) if row.offset >= 95]
        assert_same(spark.kept(tmp_path), expected)


class TestSink:
    """What Spark sends is what consumers get."""

    def test_a_batch(self, spark: SparkKafka, bootstrap: str) -> None:
        topic = create_topic(bootstrap, partitions=PARTITIONS)
        records = [
            record
            for partition in range(PARTITIONS)
            for record in varied_records(100, partition=partition)
        ]
        spark.write(topic, records, **{"kafka.compression.type": "lz4"})
        assert sorted(map(content, consumed(bootstrap, topic))) == sorted(
            content(row_of_sent(record, 0)) for record in records
        )

    def test_a_stream_from_topic_to_topic(
        self, spark: SparkKafka, bootstrap: str, tmp_path: Path
    ) -> None:
        """Run in parts on one checkpoint: the second takes only what came after the first."""
        source = create_topic(bootstrap, partitions=PARTITIONS)
        target = create_topic(bootstrap, partitions=PARTITIONS)
        for tag in ("first", "second"):
            produce(bootstrap, source, 100, tag)
            options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "90"}
            assert sum(spark.copy(source, target, "copied", tmp_path, **options)) == 300
        expected = consumed(bootstrap, source)
        seen = consumed(bootstrap, target)
        assert sorted(map(content, seen)) == sorted(map(content, expected))


def content(row: TableRow) -> tuple[Any, ...]:
    """What a record carries, whatever its offset and time; can be ordered."""
    headers = [(name, *_ordered(value)) for name, value in row.headers]
    return row.partition, _ordered(row.key), _ordered(row.value), headers


def _ordered(data: bytes | None) -> tuple[bool, bytes]:
    return data is None, data or b""
