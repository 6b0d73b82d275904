"""A topic's records are the same for Kafka clients and for every reader of its Iceberg table.

The tables are made by the real system, once for all tests; Spark with Iceberg's own runtime,
DuckDB, pyiceberg and Polars read them, and Kafka clients read the same Parquet files through the
broker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars
import pytest
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import (
    COMPRESSIONS,
    Sent,
    produce_all,
    producer,
    varied_records,
)
from tests.integration.harness.compacted import (
    run_towpath,
    towpath_tables,
    wait_until_compacted,
)
from tests.integration.harness.iceberg_jars import iceberg_jars
from tests.integration.harness.iceberg_spark import IcebergSpark
from tests.integration.harness.table_engines import (
    consume_with_confluent,
    consume_with_kafka_python,
    has_iceberg_scan,
    open_table,
    read_with_duckdb,
    read_with_iceberg_scan,
    read_with_polars,
    read_with_pyiceberg,
)
from tests.integration.harness.table_rows import TableRow, assert_same, row_of_sent
from tests.integration.harness.towpath_process import TowpathProcess

from towpath.lakehouse.java import find_java

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

PARTITIONS = 3
PER_BATCH = 100
DAY_MS = 86_400_000
FIRST_MS = 1_700_000_000_000
ORDERS, APPENDED, DAYS, GROWING = "orders", "shop.appended-eu", "days", "growing"
SETTINGS = {
    "iceberg_enabled": "true",
    "compaction_wal_max_age_ms": "500",
    "compaction_interval_ms": "100",
    # The smallest there is, so that files have several row groups.
    "compaction_row_group_bytes": "65536",
    "compaction_parquet_max_files_per_partition": "4",
    # The records are of 2023, and these tests take minutes.
    "log_retention_ms": "-1",
    "spark_ui_port": "0",
    "compaction_http_port": "0",
}
BY_DAY = {"TOWPATH_TABLE_ICEBERG_PARTITIONING": '["partition", "day(timestamp)"]'}
FAR_FUTURE = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@dataclass
class World:
    """A running system, a Spark session beside it, and what every reader must see."""

    server: TowpathProcess
    spark: IcebergSpark
    directory: Path
    expected: dict[str, list[TableRow]]

    @property
    def data_dir(self) -> Path:
        return self.server.data_dir

    def produce(self, topic: str, records: list[Sent], **settings: Any) -> list[TableRow]:
        """Send records; the rows they must become."""
        offsets = produce_all(producer(self.server.bootstrap, **settings), topic, records)
        rows = [row_of_sent(*sent) for sent in zip(records, offsets, strict=True)]
        self.expected.setdefault(topic, []).extend(rows)
        return rows


@pytest.fixture(scope="module")
def made_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Tables of every kind, compacted. The system is restarted between them, so that nothing that
    a broker remembers of what it wrote answers the consumers."""
    directory = tmp_path_factory.mktemp("engines")
    server = TowpathProcess(directory, settings=SETTINGS)
    spark = IcebergSpark(directory, server.data_dir)
    made = World(server, spark, directory, {})
    try:
        spark.start()
        server.start()
        _fill_orders(made)
        _fill_appended(made)
        wait_until_compacted(made.data_dir, ORDERS)
        wait_until_compacted(made.data_dir, APPENDED)
        assert server.stop() == 0
        server.restart(env=BY_DAY)
        _fill_days(made)
        wait_until_compacted(made.data_dir, DAYS)
        yield made
    finally:
        server.kill()
        print(server.process.log_tail())
        spark.stop()


@pytest.fixture
def world(made_world: World) -> Iterator[World]:
    """The world. What its server logs during a test is shown when the test fails."""
    since = made_world.server.process.log_size_bytes()
    yield made_world
    print(made_world.server.process.log_tail(since))


def _fill_orders(world: World) -> None:
    """Every compression, with and without idempotence, and the odd records."""
    create_topic(world.server.bootstrap, ORDERS, partitions=PARTITIONS, config=FAR_FUTURE)
    for number, compression in enumerate(COMPRESSIONS):
        for partition in range(PARTITIONS):
            for idempotent in (True, False):
                world.produce(
                    ORDERS,
                    varied_records(PER_BATCH, partition=partition, tag=f"{compression}-{number}"),
                    compression_type=compression,
                    enable_idempotence=idempotent,
                    linger_ms=50,
                )
    world.produce(ORDERS, _odd_records())


def _odd_records() -> list[Sent]:
    """Without key or value or both, empty ones, long ones, and times from 1970 to 9999."""
    headers: list[tuple[str, bytes | None]] = [
        ("same", b"1"),
        ("same", None),
        ("", b""),
        ("é", b""),
    ]
    return [
        Sent(None, timestamp_ms=FIRST_MS),
        Sent(b"", b"", timestamp_ms=FIRST_MS),
        Sent(None, b"tombstone", timestamp_ms=FIRST_MS),
        Sent(b"\x00\xff" * 100_000, None, headers, timestamp_ms=FIRST_MS),
        Sent(b"old", b"k", headers * 50, timestamp_ms=1),
        Sent(b"older than the epoch's first day's end", timestamp_ms=DAY_MS - 1),
        Sent(b"late", timestamp_ms=253_402_300_799_999),
    ]


def _fill_appended(world: World) -> None:
    """The broker's own timestamps: what they are, a consumer tells."""
    config = {"message.timestamp.type": "LogAppendTime"}
    create_topic(world.server.bootstrap, APPENDED, partitions=2, config=config)
    before_us = int(time.time() * 1000) * 1000
    for partition in range(2):
        records = varied_records(PER_BATCH, partition=partition)
        world.produce(APPENDED, records, compression_type="zstd")
    sent = world.expected[APPENDED]
    seen = consume_with_confluent(world.server.bootstrap, APPENDED, 2, len(sent))
    times = {(row.partition, row.offset): row.timestamp_us for row in seen}
    assert all(before_us <= time_us <= time.time() * 1_000_000 for time_us in times.values())
    world.expected[APPENDED] = [
        row._replace(timestamp_us=times[row.partition, row.offset]) for row in sent
    ]


def _fill_days(world: World) -> None:
    """Records of five days, one after the other in no order."""
    create_topic(world.server.bootstrap, DAYS, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = [
            Sent(
                f"{partition}-{i}".encode(),
                b"k%d" % (i % 7),
                timestamp_ms=FIRST_MS + (i * 7 % 5) * DAY_MS + i,
                partition=partition,
            )
            for i in range(500)
        ]
        world.produce(DAYS, records, compression_type="lz4", enable_idempotence=True)


def partitions_of(topic: str) -> int:
    """How many the topic was made with."""
    return 2 if topic == APPENDED else PARTITIONS


@pytest.mark.parametrize("topic", [ORDERS, APPENDED, DAYS])
class TestEveryReader:
    """Partition, offset, timestamp, key, value and headers, record by record."""

    def test_pyiceberg(self, world: World, topic: str) -> None:
        table = open_table(world.data_dir, topic)
        assert_same(read_with_pyiceberg(table), world.expected[topic])

    def test_duckdb(self, world: World, topic: str) -> None:
        table = open_table(world.data_dir, topic)
        assert_same(read_with_duckdb(table), world.expected[topic])
        if has_iceberg_scan():
            assert_same(read_with_iceberg_scan(table), world.expected[topic])

    @pytest.mark.parametrize("reader", ["native", "pyiceberg"])
    def test_polars(self, world: World, topic: str, reader: str) -> None:
        table = open_table(world.data_dir, topic)
        expected = world.expected[topic]
        assert_same(read_with_polars(table, reader_override=reader), expected)
        seen = consume_with_confluent(
            world.server.bootstrap, topic, partitions_of(topic), len(expected)
        )
        assert_same(read_with_polars(table, reader_override=reader), seen)

    @pytest.mark.parametrize("vectorized", [True, False], ids=["vectorized", "by-row"])
    def test_spark(self, world: World, topic: str, vectorized: bool) -> None:
        assert_same(world.spark.rows(topic, vectorized=vectorized), world.expected[topic])
        plain = world.spark.rows(topic, vectorized=vectorized, headers=False)
        assert world.spark.was_columnar == vectorized
        assert_same(plain, [row._replace(headers=()) for row in world.expected[topic]])

    def test_confluent_kafka(self, world: World, topic: str) -> None:
        expected = world.expected[topic]
        seen = consume_with_confluent(
            world.server.bootstrap, topic, partitions_of(topic), len(expected)
        )
        assert_same(seen, expected)

    def test_kafka_python(self, world: World, topic: str) -> None:
        expected = world.expected[topic]
        seen = consume_with_kafka_python(
            world.server.bootstrap, topic, partitions_of(topic), len(expected)
        )
        assert_same(seen, expected)


def test_idempotent_producers_are_in_the_table(world: World) -> None:
    """Half of the producers were; a batch's sequence begins where its first record's does."""
    rows = open_table(world.data_dir, ORDERS).scan().to_arrow().to_pylist()
    sent = [row for row in rows if row["producer_id"] is not None]
    assert len(sent) == len(COMPRESSIONS) * PARTITIONS * PER_BATCH
    assert len({row["producer_id"] for row in sent}) == len(COMPRESSIONS) * PARTITIONS
    assert {row["producer_epoch"] for row in sent} == {0}
    assert all(0 <= row["base_sequence"] < PER_BATCH for row in sent)


@pytest.mark.parametrize("day", range(5))
def test_filters_lose_nothing(world: World, day: int) -> None:
    """Readers leave out files by partition, day, offsets and times: none that they should read."""
    start_us = (FIRST_MS // DAY_MS + day) * DAY_MS * 1000
    end_us = start_us + DAY_MS * 1000
    expected = [
        row
        for row in world.expected[DAYS]
        if row.partition == 1 and start_us <= row.timestamp_us < end_us and row.offset >= 100
    ]
    assert expected
    plain = "`partition` = 1 AND `offset` >= 100"
    span = (
        f"timestamp_micros({start_us}) <= `timestamp` AND `timestamp` < timestamp_micros({end_us})"
    )
    assert_same(world.spark.rows(DAYS, where=f"{plain} AND {span}"), expected)
    table = open_table(world.data_dir, DAYS)
    low, high = (f"'{_iso(time_us)}'" for time_us in (start_us, end_us))
    where = f"partition = 1 AND offset >= 100 AND timestamp >= {low} AND timestamp < {high}"
    assert_same(read_with_pyiceberg(table, row_filter=where), expected)
    in_duckdb = f'partition = 1 AND "offset" >= 100 AND timestamp >= {low} AND timestamp < {high}'
    assert_same(read_with_duckdb(table, in_duckdb), expected)
    start, end = (datetime.fromtimestamp(us // 1_000_000, UTC) for us in (start_us, end_us))
    in_polars = (
        (polars.col("partition") == 1)
        & (polars.col("offset") >= 100)
        & polars.col("timestamp").is_between(start, end, closed="left")
    )
    assert_same(read_with_polars(table, in_polars), expected)


def _iso(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).isoformat()


def test_a_table_split_by_day_has_files_of_one_day(world: World) -> None:
    files = towpath_tables(world.data_dir, "files", DAYS)
    assert {file["partition"] for file in files} == set(range(PARTITIONS))
    days = {file["min_timestamp_ms"] // DAY_MS for file in files}
    assert len(days) == 5
    assert all(f["min_timestamp_ms"] // DAY_MS == f["max_timestamp_ms"] // DAY_MS for f in files)
    described = towpath_tables(world.data_dir, "describe", DAYS)
    assert [part["transform"] for part in described["partitioning"]] == ["identity", "day"]


@pytest.mark.parametrize("topic", [ORDERS, APPENDED, DAYS])
def test_the_command_tells_what_is_there(world: World, topic: str) -> None:
    expected = world.expected[topic]
    described = towpath_tables(world.data_dir, "describe", f"towpath.{topic}")
    assert (described["topic"], described["rows"]) == (topic, len(expected))
    per_partition = Counter(row.partition for row in expected)
    assert [
        (part["partition"], part["rows"], part["compacted_end"], part["log_end"])
        for part in described["partitions"]
    ] == [(partition, rows, rows, rows) for partition, rows in sorted(per_partition.items())]
    files = towpath_tables(world.data_dir, "files", topic)
    paths = [Path(file["path"].removeprefix("file://")) for file in files]
    assert [file["size_bytes"] for file in files] == [path.stat().st_size for path in paths]
    assert sum(file["size_bytes"] for file in files) == described["size_bytes"]
    assert sum(file["rows"] for file in files) == len(expected)
    snapshots = towpath_tables(world.data_dir, "snapshots", topic)
    assert snapshots[-1]["snapshot_id"] == described["snapshot_id"]
    assert snapshots[-1]["offsets"] == {str(p): rows for p, rows in per_partition.items()}


@pytest.mark.parametrize("program", ["pyiceberg", "duckdb"])
@pytest.mark.parametrize("topic", [ORDERS, APPENDED])
def test_python_lines_to_copy(world: World, tmp_path: Path, topic: str, program: str) -> None:
    text = towpath_tables(world.data_dir, "describe", topic)["read_with"][program]
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    # DuckDB leaves out columns in the middle, depending on how wide the values are.
    assert "partition" in done.stdout
    assert "attributes" in done.stdout


def test_spark_lines_to_copy(world: World, tmp_path: Path) -> None:
    """As they are, but for the jars: those are here already."""
    text = towpath_tables(world.data_dir, "describe", APPENDED)["read_with"]["spark_sql"]
    jars = ",".join(map(str, iceberg_jars()))
    command, replaced = re.subn(r"--packages \S+", f"--jars {jars}", text)
    assert replaced == 1
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(world.directory / "java").home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.count("\t") == 9]) == 5
    assert list(tmp_path.iterdir()) == []


def test_a_stream_and_the_past_across_appends_and_a_rewrite(world: World) -> None:
    """Spark follows the table as a stream: each record once, whatever becomes of its file; and
    every snapshot still holds what it held."""
    create_topic(world.server.bootstrap, GROWING, partitions=2)
    _append(world, 0)
    world.spark.start_stream(GROWING, "followed")
    assert_same(world.spark.drain("followed"), world.expected[GROWING])
    number = 0
    while "replace" not in _operations(world) or number < 6:
        number += 1
        assert number < 20, "small files are never rewritten"
        _append(world, number)
        if number in (1, 4):
            assert_same(world.spark.drain("followed"), world.expected[GROWING])
    _append(world, number + 1)
    assert_same(world.spark.drain("followed"), world.expected[GROWING])
    world.spark.stop_stream("followed")
    table = open_table(world.data_dir, GROWING)
    for snapshot in towpath_tables(world.data_dir, "snapshots", GROWING):
        ends = snapshot["offsets"]
        expected = [
            row for row in world.expected[GROWING] if row.offset < ends.get(str(row.partition), 0)
        ]
        snapshot_id = snapshot["snapshot_id"]
        assert_same(world.spark.rows(GROWING, snapshot_id=snapshot_id), expected)
        assert_same(read_with_pyiceberg(table, snapshot_id=snapshot_id), expected)
        assert_same(read_with_polars(table, snapshot_id=snapshot_id), expected)
    consumed = consume_with_confluent(
        world.server.bootstrap, GROWING, 2, len(world.expected[GROWING])
    )
    assert_same(consumed, world.expected[GROWING])


def _append(world: World, number: int) -> None:
    """One more commit to the growing table."""
    for partition in range(2):
        world.produce(GROWING, varied_records(20, partition=partition, tag=f"a{number}"))
    wait_until_compacted(world.data_dir, GROWING)


def _operations(world: World) -> list[str]:
    return [found["operation"] for found in towpath_tables(world.data_dir, "snapshots", GROWING)]


def test_an_unknown_table(world: World) -> None:
    done = run_towpath("tables", "describe", "ordesr", "--data-dir", str(world.data_dir))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "towpath: there is no table 'ordesr', did you mean 'orders'?\n"
