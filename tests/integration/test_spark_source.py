"""`spark.read.format("towpath")` and `readStream` beside a running system: every acknowledged
record, once, wherever it lies."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import Sent, produce_all, producer, varied_records
from tests.integration.harness.compacted import wait_until_compacted
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.user_spark import SparkFailed, UserSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

PARTITIONS = 2
FIRST_MS = 1_700_000_000_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
Row = tuple[Any, ...]


# In the process of the session


def read(session: SparkSession, options: dict[str, str], where: str = "true") -> list[Row]:
    """Records as a consumer sees them: partition, offset, value, key, headers, time."""
    frame = session.read.format("towpath").options(**options).load().where(where)
    columns = ["partition", "offset", "value", "key", "headers", "unix_millis(timestamp)"]
    return [
        (row[0], row[1], _plain(row[2]), _plain(row[3]), _headers(row[4]), row[5])
        for row in frame.selectExpr(*columns).collect()
    ]


def query(session: SparkSession, options: dict[str, str], sql: str) -> list[Row]:
    """Any query over the topic, which is called `topic`."""
    session.read.format("towpath").options(**options).load().createOrReplaceTempView("topic")
    return [tuple(row) for row in session.sql(sql).collect()]


def with_pushdown(session: SparkSession, options: dict[str, str], where: str) -> list[Row]:
    """As `read`, with Spark's switch for filters on, and how many rows left the workers."""
    session.conf.set(PUSHDOWN, "true")
    try:
        return read(session, options, where)
    finally:
        session.conf.set(PUSHDOWN, "false")


def run_stream(
    session: SparkSession, options: dict[str, str], checkpoint: str, trigger: dict[str, Any]
) -> list[tuple[int, list[Row]]]:
    """The micro-batches of a query that goes on from its checkpoint until nothing is left."""
    batches: list[tuple[int, list[Row]]] = []

    def take(frame: Any, number: int) -> None:
        found = frame.select("partition", "offset", "value").collect()
        batches.append((number, [(row[0], row[1], _plain(row[2])) for row in found]))

    frame = session.readStream.format("towpath").options(**options).load()
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    running = writer.trigger(**trigger).start()
    if "availableNow" in trigger:
        running.awaitTermination()
    else:
        running.processAllAvailable()
        running.stop()
    return batches


def _plain(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _headers(pairs: Any) -> list[tuple[str, bytes | None]]:
    return [(pair[0], _plain(pair[1])) for pair in pairs]


# Here


@pytest.fixture(scope="module")
def towpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    """A system that compacts after a second."""
    settings = {"iceberg_enabled": "true", "compaction_wal_max_age_ms": "1000"}
    process = TowpathProcess(tmp_path_factory.mktemp("spark-source"), settings=settings)
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserSpark]:
    session = UserSpark(tmp_path_factory.mktemp("user-spark"))
    session.start()
    yield session
    session.stop()


def options(towpath: TowpathProcess, topic: str, **more: Any) -> dict[str, str]:
    named = {name: str(value) for name, value in more.items()}
    return {"topic": topic, "data-dir": str(towpath.data_dir), **named}


def records(count: int, tag: str) -> list[Sent]:
    return [
        record
        for partition in range(PARTITIONS)
        for record in varied_records(count, partition=partition, tag=tag)
    ]


def as_sent(found: list[Row], partition: int) -> list[Sent]:
    """Rows of a partition as they were sent, in the order of their offsets, which are all there."""
    rows = sorted(row for row in found if row[0] == partition)
    assert [row[1] for row in rows] == list(range(len(rows)))
    return [Sent(row[2], row[3], row[4], row[5], partition) for row in rows]


@pytest.fixture(scope="module")
def sent(towpath: TowpathProcess, spark: UserSpark) -> list[Sent]:
    """Records that were read right after each part was acknowledged, while it was compacted."""
    create_topic(towpath.bootstrap, "orders", partitions=PARTITIONS)
    client = producer(towpath.bootstrap)
    done: list[Sent] = []
    for number in range(6):
        part = records(40, f"{number}")
        produce_all(client, "orders", part)
        done += part
        found = spark.call(read, options=options(towpath, "orders"))
        for partition in range(PARTITIONS):
            expected = [record for record in done if record.partition == partition]
            assert as_sent(found, partition) == expected
        if number == 2:
            wait_until_compacted(towpath.data_dir, "orders")
    return done


def test_both_halves_at_any_moment(
    towpath: TowpathProcess, spark: UserSpark, sent: list[Sent]
) -> None:
    wait_until_compacted(towpath.data_dir, "orders")
    each = len(sent) // PARTITIONS
    shape = "SELECT partition, count(*), count(DISTINCT offset), max(offset) FROM topic GROUP BY 1"
    found = spark.call(query, options=options(towpath, "orders", columns="partition,offset"),
                       sql=shape)  # fmt: skip
    assert sorted(found) == [(number, each, each, each - 1) for number in range(PARTITIONS)]


def test_spans_times_and_filters(
    towpath: TowpathProcess, spark: UserSpark, sent: list[Sent]
) -> None:
    each = len(sent) // PARTITIONS

    def places(found: list[Row]) -> list[tuple[int, int]]:
        return sorted((row[0], row[1]) for row in found)

    def of(first: int, end: int) -> list[tuple[int, int]]:
        return [(number, at) for number in range(PARTITIONS) for at in range(first, end)]

    given = options(towpath, "orders", startingOffsets=30, endingOffsets='{"0": 200, "1": 200}')
    assert places(spark.call(read, options=given)) == of(30, 200)
    given = options(towpath, "orders", asOf=json.dumps({"orders": {"0": 90, "1": 90}}))
    assert places(spark.call(read, options=given)) == of(0, 90)
    times = sorted(record.timestamp_ms or 0 for record in sent)
    middle_ms = times[len(times) // 2]
    expected = sum(time_ms >= middle_ms for time_ms in times)
    given = options(towpath, "orders", timestampFrom=middle_ms)
    assert len(spark.call(read, options=given)) == expected
    where = f"timestamp >= timestamp_millis({middle_ms})"
    for function in (read, with_pushdown):
        found = spark.call(function, options=options(towpath, "orders"), where=where)
        assert len(found) == expected
        where_offset = "offset >= 100 and offset < 103 and partition = 1"
        found = spark.call(function, options=options(towpath, "orders"), where=where_offset)
        assert places(found) == [(1, 100), (1, 101), (1, 102)]
    assert each > 200


def test_what_spark_says_of_wrong_options(towpath: TowpathProcess, spark: UserSpark) -> None:
    for given, message in (
        ({"topic": "nothing"}, "there is no topic 'nothing'"),
        ({"startingOffset": "3"}, "there is no option 'startingoffset'"),
        ({"columns": "values"}, "there is no column 'values'"),
    ):
        with pytest.raises(SparkFailed, match=message):
            spark.call(read, options={**options(towpath, "orders"), **given})


def test_a_stream_reads_every_record_once(
    towpath: TowpathProcess, spark: UserSpark, tmp_path: Path
) -> None:
    """Through restarts, while records come and are compacted."""
    create_topic(towpath.bootstrap, "clicks", partitions=PARTITIONS)
    client = producer(towpath.bootstrap)
    checkpoint = str(tmp_path / "checkpoint")
    seen: list[Row] = []
    done: list[Sent] = []
    for number in range(4):
        part = records(50, f"{number}")
        adding = threading.Thread(target=produce_all, args=(client, "clicks", part))
        adding.start()
        trigger = {"availableNow": True} if number == 1 else {"processingTime": "100 milliseconds"}
        batches = spark.call(run_stream, options=options(towpath, "clicks"), checkpoint=checkpoint,
                             trigger=trigger)  # fmt: skip
        seen += [row for _, rows in batches for row in rows]
        adding.join()
        done += part
        if number == 2:
            wait_until_compacted(towpath.data_dir, "clicks")
    batches = spark.call(run_stream, options=options(towpath, "clicks"), checkpoint=checkpoint,
                         trigger={"availableNow": True})  # fmt: skip
    seen += [row for _, rows in batches for row in rows]
    for partition in range(PARTITIONS):
        rows = sorted(row for row in seen if row[0] == partition)
        expected = [record.value for record in done if record.partition == partition]
        assert [row[1] for row in rows] == list(range(len(expected)))
        assert [row[2] for row in rows] == expected


def test_a_stream_keeps_its_limit_over_restarts(
    towpath: TowpathProcess, spark: UserSpark, sent: list[Sent], tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    given = options(towpath, "orders", maxOffsetsPerTrigger=100, checkpointLocation=checkpoint)
    first = spark.call(run_stream, options=given, checkpoint=checkpoint,
                       trigger={"availableNow": True})  # fmt: skip
    assert [len(rows) for _, rows in first] == [100]
    rest = spark.call(run_stream, options=given, checkpoint=checkpoint,
                      trigger={"processingTime": "0 seconds"})  # fmt: skip
    sizes = [len(rows) for _, rows in rest]
    assert max(sizes) == 100
    rows = [row for _, batch in [*first, *rest] for row in batch]
    assert len(rows) == len({row[:2] for row in rows}) == len(sent)
