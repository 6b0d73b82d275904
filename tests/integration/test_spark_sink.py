"""Spark writes topics: what it wrote is what Kafka clients read, and a stream is written once,
wherever its driver is killed."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic, end_offset, offset_at, unique_name
from tests.integration.harness.clients import (
    Sent,
    as_sent,
    assigned_consumer,
    consume,
    produce_all,
    producer,
    take,
    varied_records,
)
from tests.integration.harness.compacted import wait_until_compacted
from tests.integration.harness.confluent_admin import OffsetSpec
from tests.integration.harness.kafka_python import KafkaConsumer
from tests.integration.harness.kafka_python import TopicPartition as PythonPartition
from tests.integration.harness.seaweedfs import SeaweedFs
from tests.integration.harness.sink_spark import SinkSpark, SparkFailed
from tests.integration.harness.towpath_process import TowpathProcess

from towpath.config.settings import Settings
from towpath.gc.orphans import OrphanCollector
from towpath.gc.settings import GcSettings
from towpath.metadata.keys import wal
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import prefix_end
from towpath.objects.fs import FsObjectStore
from towpath.observe.metrics import Metrics
from towpath.query.engine import TopicQueries
from towpath.runtime import InlineOffload, Runtime

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

EVERY_COLUMN = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, "
    "`partition` int, timestamp timestamp"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def towpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    """Two brokers: what Spark commits both of them must see."""
    server = TowpathProcess(tmp_path_factory.mktemp("sink"), brokers=2)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        print(server.process.log_tail())


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkSpark]:
    """One session for the tests that kill none."""
    session = SinkSpark(tmp_path_factory.mktemp("spark"), cores=1).start()
    yield session
    session.stop()


def options(towpath: TowpathProcess, topic: str, **more: str) -> dict[str, str]:
    return {"dataDir": str(towpath.data_dir), "topic": topic, **more}


def as_row(record: Sent) -> tuple[Any, ...]:
    assert record.timestamp_ms is not None
    at = EPOCH + timedelta(milliseconds=record.timestamp_ms)
    headers = [tuple(header) for header in record.headers] or None
    return record.key, record.value, headers, record.partition, at


def test_two_clients_read_what_was_written(towpath: TowpathProcess, spark: SinkSpark) -> None:
    topic = create_topic(towpath.bootstrap, unique_name("rows"), partitions=2)
    sent = [record for partition in range(2) for record in varied_records(500, partition=partition)]
    random.Random(1).shuffle(sent)
    for part, compression in zip((sent[:300], sent[300:]), ("none", "zstd"), strict=True):
        rows = [as_row(record) for record in part]
        spark.write(rows, EVERY_COLUMN, options(towpath, topic, compression=compression), tasks=3)
    for partition, bootstrap in enumerate(towpath.bootstraps):
        expected = [record for record in sent if record.partition == partition]
        found = consume(bootstrap, topic, len(expected), partition=partition)
        assert [as_sent(message) for message in found] == expected
        assert [message.offset() for message in found] == list(range(len(expected)))
        assert end_offset(bootstrap, topic, partition) == len(expected)
        client = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        try:
            client.assign([PythonPartition(topic, partition)])
            client.seek_to_beginning()
            others = [next(client) for _ in expected]
        finally:
            client.close()
        assert [
            Sent(one.value, one.key, list(one.headers), one.timestamp, one.partition)
            for one in others
        ] == expected


def test_keys_go_where_a_java_client_sends_them(towpath: TowpathProcess, spark: SinkSpark) -> None:
    topic = create_topic(towpath.bootstrap, unique_name("keys"), partitions=7)
    keys = [f"key-{number}".encode() for number in range(200)]
    spark.write(
        [(key, b"spark") for key in keys], "key binary, value binary", options(towpath, topic)
    )
    client = producer(towpath.bootstrap, partitioner="murmur2_random")
    produce_all(client, topic, [Sent(b"client", key, partition=-1) for key in keys])
    found: dict[bytes, dict[bytes, int]] = {b"spark": {}, b"client": {}}
    for partition in range(7):
        count = end_offset(towpath.bootstrap, topic, partition)
        for message in consume(towpath.bootstrap, topic, count, partition=partition):
            found[message.value()][message.key()] = partition
    assert found[b"spark"] == found[b"client"]
    assert len(found[b"spark"]) == 200


def test_a_waiting_consumer_and_the_time_index(towpath: TowpathProcess, spark: SinkSpark) -> None:
    topic = create_topic(towpath.bootstrap, unique_name("tail"))
    # A long poll that nobody woke would end after the test has given up.
    slow = {"fetch_wait_max_ms": 290_000, "socket_timeout_ms": 300_000}
    with assigned_consumer(towpath.bootstrap, {(topic, 0): 0}, **slow) as client:
        got: list[Any] = []
        waiting = threading.Thread(target=lambda: got.extend(take(client, 10, 200.0)))
        waiting.start()
        rows = [(str(n), EPOCH + timedelta(days=15_000 + n)) for n in range(10)]
        spark.write(rows, "value string, timestamp timestamp", options(towpath, topic), tasks=1)
        waiting.join()
        assert [message.value() for message in got] == [b"%d" % n for n in range(10)]
    spec = OffsetSpec.for_timestamp(15_004 * DAY_MS - 1)
    assert offset_at(towpath.bootstrap, topic, spec) == 4


@pytest.mark.parametrize(
    ("rows", "schema", "more", "reason"),
    [
        ([(1,)], "value int", {}, "column 'value' is int, not binary or string"),
        ([("a", 1)], "value string, offset int", {}, "a topic has no column 'offset'"),
        ([("a",)], "key string", {}, "column 'value' is missing"),
        ([("a", 7)], "value string, partition int", {}, "a row is for partition 7"),
        ([("a", "b")], "value string, topic string", {}, "a row is for topic 'b'"),
        ([("x" * 5000,)], "value string", {"compression": "none"}, "topic 'small' takes 2000"),
        ([("a",)], "value string", {"topic": "compacted"}, "rows have no key"),
        ([("a",)], "value string", {"topic": "missing"}, "there is no topic 'missing'"),
        ([("a",)], "value string", {"compression": "brotli"}, "there is no compression 'brotli'"),
        ([("a",)], "value string", {"compresion": "lz4"}, "there is no option 'compresion'"),
        ([("a",)], "value string", {"txnVersion": "1"}, "belong together"),
        ([("a",)], "value string", {"dataDir": "/nowhere"}, "there is no Towpath here"),
    ],
)
def test_bad_input_is_told_and_changes_nothing(
    towpath: TowpathProcess,
    spark: SinkSpark,
    bad_topics: None,
    rows: list[tuple[Any, ...]],
    schema: str,
    more: dict[str, str],
    reason: str,
) -> None:
    # The first task is fine; it has staged its rows when the other one fails, and they go again.
    before = objects_on_disk(towpath.data_dir)
    fine = [tuple("fine" if isinstance(each, str) else 0 for each in row) for row in rows]
    if "topic" in schema:
        fine = [("fine", "small")]
    with pytest.raises(SparkFailed) as failure:
        spark.write([*fine, *rows], schema, {**options(towpath, "small"), **more}, tasks=2)
    assert reason in str(failure.value)
    for topic in ("small", "compacted"):
        assert end_offset(towpath.bootstrap, topic) == 0
    assert objects_on_disk(towpath.data_dir) == before


@pytest.fixture(scope="module")
def bad_topics(towpath: TowpathProcess) -> None:
    config = {"max.message.bytes": "2000"}
    create_topic(towpath.bootstrap, "small", config=config)
    create_topic(towpath.bootstrap, "compacted", config={"cleanup.policy": "compact"})


def test_overwriting_is_refused(towpath: TowpathProcess, spark: SinkSpark) -> None:
    topic = create_topic(towpath.bootstrap, unique_name("overwritten"))
    with pytest.raises(SparkFailed, match="only ever appended"):
        spark.write([("a",)], "value string", options(towpath, topic), mode="overwrite")
    assert end_offset(towpath.bootstrap, topic) == 0


def test_a_batch_with_a_version_is_written_once(towpath: TowpathProcess, spark: SinkSpark) -> None:
    topic = create_topic(towpath.bootstrap, unique_name("once"))
    for version in (1, 1, 2, 1, 2):
        named = options(towpath, topic, txnAppId="job", txnVersion=str(version))
        spark.write([(f"v{version}",)], "value string", named, tasks=1)
    found = consume(towpath.bootstrap, topic, 2)
    assert [message.value() for message in found] == [b"v1", b"v2"]
    assert end_offset(towpath.bootstrap, topic) == 2


# Streams


def add_lines(directory: Path, name: str, count: int = 20) -> list[bytes]:
    """A new file of lines, whole when the stream sees it."""
    lines = [f"{name}-{number}" for number in range(count)]
    hidden = directory / f".{name}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(directory / name)
    return [line.encode() for line in lines]


def everything(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """Every value of the topic, sorted."""
    return sorted(
        message.value()
        for partition in range(partitions)
        for message in consume(
            bootstrap, topic, end_offset(bootstrap, topic, partition), partition=partition
        )
    )


def objects_on_disk(data_dir: Path) -> set[str]:
    root = data_dir / "objects"
    return {str(path.relative_to(root)) for path in root.rglob("*.wo")}


class LaterClock:
    """The machine's clock, some time ahead."""

    def __init__(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return int(datetime.now(UTC).timestamp() * 1000) + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self.now_ms()


async def collect_orphans(data_dir: Path, ahead_ms: int) -> set[str]:
    """A round of the orphan collector as a broker runs it, at a later time; the objects that the
    metadata store knows as committed."""
    runtime = Runtime(LaterClock(ahead_ms), random.Random(1), InlineOffload())
    store = await SqliteStore.open(data_dir / "metadata.sqlite", runtime)
    objects = FsObjectStore(data_dir / "objects", runtime)
    try:
        collector = OrphanCollector(store, objects, runtime, GcSettings(), Metrics())
        await collector.run_once()
        prefix = wal.OBJECTS_PREFIX
        rows = await store.scan(prefix, prefix_end(prefix), limit=100_000)
        return {wal.WalObject.decode(row.value).path for row in rows}
    finally:
        await objects.close()
        await store.close()


def test_a_stream_is_written_once_wherever_its_driver_is_killed(
    start_towpath: Callable[..., TowpathProcess], tmp_path: Path
) -> None:
    towpath = start_towpath()
    topic = create_topic(towpath.bootstrap, unique_name("stream"), partitions=3)
    lines, checkpoint = tmp_path / "lines", tmp_path / "checkpoint"
    lines.mkdir()
    expected: list[bytes] = []
    visible = 0
    # At each point the driver dies once: a task has staged; all have, and nothing is committed; it
    # is committed, and Spark does not know. Each run begins with the epoch that the last one left.
    for number, (point, committed) in enumerate(
        [
            ("sink-staged", 0),
            ("sink-before-commit", 0),
            ("sink-after-commit", 1),
            ("sink-before-commit", 0),
        ]
    ):
        expected += add_lines(lines, f"file-{number}")
        driver = SinkSpark(
            tmp_path, {"TOWPATH_FAULT_POINT": point, "TOWPATH_FAULT_ACTION": "stop"}
        ).start()
        try:
            driver.begin_stream(lines, checkpoint, options(towpath, topic))
            driver.wait_until_stopped()
            # A collector that runs now takes nothing away from what is about to be committed.
            asyncio.run(collect_orphans(towpath.data_dir, 0))
        finally:
            driver.kill()
        visible += committed
        assert len(everything(towpath.bootstrap, topic, 3)) == 20 * visible, point
    expected += add_lines(lines, "last")
    final = SinkSpark(tmp_path).start()
    try:
        query = final.stream(lines, checkpoint, options(towpath, topic))
        assert query["epochs"]
        assert everything(towpath.bootstrap, topic, 3) == sorted(expected)
        # Nothing is new: nothing is added.
        final.stream(lines, checkpoint, options(towpath, topic))
        assert everything(towpath.bootstrap, topic, 3) == sorted(expected)
        # Who deletes the checkpoint begins a new query, which writes everything again.
        other = tmp_path / "other-checkpoint"
        final.stream(lines, other, options(towpath, topic))
        assert everything(towpath.bootstrap, topic, 3) == sorted(expected * 2)
    finally:
        final.stop()
    # What the killed drivers left is collected, and nothing else.
    before = objects_on_disk(towpath.data_dir)
    asyncio.run(collect_orphans(towpath.data_dir, 2 * DAY_MS))
    committed_paths = asyncio.run(collect_orphans(towpath.data_dir, 3 * DAY_MS))
    after = objects_on_disk(towpath.data_dir)
    assert after == committed_paths
    assert after < before
    assert everything(towpath.bootstrap, topic, 3) == sorted(expected * 2)


def test_streams_that_cannot_be_written_once_are_refused(
    towpath: TowpathProcess, spark: SinkSpark, tmp_path: Path
) -> None:
    topic = create_topic(towpath.bootstrap, unique_name("refused"))
    lines = tmp_path / "lines"
    lines.mkdir()
    add_lines(lines, "file")
    named = options(towpath, topic, txnAppId="my-query")
    spark.stream(lines, tmp_path / "first", named)
    add_lines(lines, "more")
    spark.stream(lines, tmp_path / "first", named)
    assert end_offset(towpath.bootstrap, topic) == 40
    # A name that somebody chose, and a checkpoint that counts from 0 again.
    with pytest.raises(SparkFailed, match="epoch 0 of 'app:my-query' is below 1"):
        spark.stream(lines, tmp_path / "second", named)
    with pytest.raises(SparkFailed, match="txnVersion' is for batches"):
        spark.stream(lines, tmp_path / "third", {**named, "txnVersion": "1"})
    assert end_offset(towpath.bootstrap, topic) == 40


def test_what_spark_wrote_becomes_a_table(
    start_towpath: Callable[..., TowpathProcess], spark: SinkSpark
) -> None:
    settings = {"iceberg_enabled": "true", "compaction_wal_max_age_ms": "1000"}
    towpath = start_towpath(settings=settings)
    create_topic(towpath.bootstrap, "orders", partitions=2)
    sent = [record for partition in range(2) for record in varied_records(100, partition=partition)]
    spark.write([as_row(record) for record in sent], EVERY_COLUMN, options(towpath, "orders"))
    wait_until_compacted(towpath.data_dir, "orders")
    for partition in range(2):
        expected = [record for record in sent if record.partition == partition]
        found = consume(towpath.bootstrap, "orders", len(expected), partition=partition)
        assert [as_sent(message) for message in found] == expected
    queries = TopicQueries(Settings(data_dir=towpath.data_dir))
    try:
        answer = queries.run('SELECT count(*), count(DISTINCT "offset") FROM orders')
        assert answer is not None
        assert [tuple(row.values()) for batch in answer for row in batch.to_pylist()] == [
            (200, 100)
        ]
    finally:
        queries.close()


def test_workers_need_the_object_store_alone(
    start_towpath: Callable[..., TowpathProcess],
    spark: SinkSpark,
    s3_server: SeaweedFs,
    tmp_path: Path,
) -> None:
    """On S3, in objects of several parts; the settings come from the system's file."""
    config = tmp_path / "towpath.yaml"
    config.write_text(
        json.dumps(
            {
                "objects_url": f"s3://objects/{unique_name('sink')}",
                "objects_options": s3_server.s3_options(),
            }
        )
    )
    towpath = start_towpath(settings={"config": str(config)})
    topic = create_topic(towpath.bootstrap, unique_name("s3"))
    chance = random.Random(1)
    values = [chance.randbytes(100_000) for _ in range(200)]
    named = options(towpath, topic, config=str(config))
    spark.write([(value,) for value in values], "value binary", named, tasks=2)
    with pytest.raises(SparkFailed, match="a row is for partition 1"):
        spark.write([("a", 0), ("b", 1)], "value string, partition int", named, tasks=1)
    found = consume(towpath.bootstrap, topic, len(values))
    assert [message.value() for message in found] == values
    assert end_offset(towpath.bootstrap, topic) == len(values)
    assert objects_on_disk(towpath.data_dir) == set()
