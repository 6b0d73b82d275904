"""A Spark stream that commits its progress as a group's offsets, seen with Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.java_tools import java_tool
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.user_spark import SparkFailed, UserSpark
from tests.integration.harness.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

PARTITIONS = 2
CONSUMER_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_running: dict[str, Any] = {}
"""In the process of the session: queries by name."""


# In the process of the session


def start(session: SparkSession, name: str, options: dict[str, str], checkpoint: str) -> None:
    """Start a query that reads as records come."""
    frame = session.readStream.format("towpath").options(**options).load()
    writer = frame.writeStream.foreachBatch(_take).option("checkpointLocation", checkpoint)
    _running[name] = writer.trigger(processingTime="0 seconds").start()


def wait_for_all(session: SparkSession, name: str) -> None:
    """Wait until everything that is there now was read."""
    _running[name].processAllAvailable()


def stop(session: SparkSession, name: str) -> None:
    """Stop a query."""
    _running.pop(name).stop()


def read_what_is_there(session: SparkSession, options: dict[str, str], checkpoint: str) -> None:
    """A query that reads what is there and ends."""
    frame = session.readStream.format("towpath").options(**options).load()
    writer = frame.writeStream.foreachBatch(_take).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def _take(frame: Any, number: int) -> None:
    frame.count()


# Here


@pytest.fixture(scope="module")
def towpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    process = TowpathProcess(tmp_path_factory.mktemp("spark-groups"))
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


def produce(towpath: TowpathProcess, topic: str, count: int) -> None:
    records = [Sent(b"%d" % i, partition=i % PARTITIONS) for i in range(count)]
    produce_all(producer(towpath.bootstrap), topic, records)


def described(towpath: TowpathProcess, group: str) -> dict[int, tuple[int, int, int]]:
    """By partition: committed offset, log end and lag, as Kafka's tool tells them."""
    done = java_tool(
        CONSUMER_GROUP_COMMAND,
        *("--bootstrap-server", towpath.bootstrap, "--describe", "--group", group),
    )
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.lines() if line.startswith(group)]
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows}


def test_the_lag_of_a_running_stream(
    towpath: TowpathProcess, spark: UserSpark, tmp_path: Path
) -> None:
    topic = create_topic(towpath.bootstrap, partitions=PARTITIONS)
    group = unique_name("stream")
    produce(towpath, topic, 10)
    asked = options(towpath, topic, groupId=group)
    spark.call(start, name=group, options=asked, checkpoint=str(tmp_path / "checkpoint"))
    spark.call(wait_for_all, name=group)
    expected = {0: (5, 5, 0), 1: (5, 5, 0)}
    wait_until(lambda: described(towpath, group) == expected, "no lag", timeout_s=120)
    produce(towpath, topic, 4)
    spark.call(wait_for_all, name=group)
    expected = {0: (7, 7, 0), 1: (7, 7, 0)}
    wait_until(lambda: described(towpath, group) == expected, "no lag again", timeout_s=120)
    spark.call(stop, name=group)
    produce(towpath, topic, 6)
    assert described(towpath, group) == {0: (7, 10, 3), 1: (7, 10, 3)}


def test_a_query_that_ends_leaves_no_lag(
    towpath: TowpathProcess, spark: UserSpark, tmp_path: Path
) -> None:
    topic = create_topic(towpath.bootstrap, partitions=PARTITIONS)
    group = unique_name("ending")
    checkpoint = str(tmp_path / "checkpoint")
    asked = options(towpath, topic, groupId=group, checkpointLocation=checkpoint)
    for count in (10, 4):
        produce(towpath, topic, count)
        spark.call(read_what_is_there, options=asked, checkpoint=checkpoint)
        wait_until(
            lambda: {lag for _, _, lag in described(towpath, group).values()} == {0},
            "no lag",
            timeout_s=120,
        )
    assert described(towpath, group) == {0: (7, 7, 0), 1: (7, 7, 0)}


def test_a_group_with_members_is_refused(
    towpath: TowpathProcess, spark: UserSpark, tmp_path: Path
) -> None:
    topic = create_topic(towpath.bootstrap, partitions=PARTITIONS)
    group = unique_name("members")
    produce(towpath, topic, 2)
    settings = {
        "bootstrap.servers": towpath.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.2) is not None, "a record", timeout_s=60)
        asked = options(towpath, topic, groupId=group)
        with pytest.raises(SparkFailed, match=f"group '{group}' is Stable with 1 member"):
            spark.call(read_what_is_there, options=asked, checkpoint=str(tmp_path / "checkpoint"))
    finally:
        consumer.close()
