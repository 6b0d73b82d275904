"""The whole system on S3: WAL objects, data files, and tables in a REST catalog with OAuth2.

SeaweedFS serves both. Its catalog keeps tables' metadata in a bucket of its own kind, which takes
`<namespace>/<table>/metadata/...` and nothing else; so the catalog places the tables, their names
are made safe, and the data files lie beside the WAL in an ordinary bucket.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import Sent, produce_all, producer, varied_records
from tests.integration.harness.compacted import is_in_parquet, run_towpath
from tests.integration.harness.ports import free_ports
from tests.integration.harness.seaweedfs import (
    ACCESS_KEY,
    GUEST_ACCESS_KEY,
    GUEST_SECRET_KEY,
    SECRET_KEY,
    SeaweedFs,
)
from tests.integration.harness.table_engines import consume_with_confluent, read_with_pyiceberg
from tests.integration.harness.table_rows import TableRow, assert_same, row_of_sent
from tests.integration.harness.tcp_proxy import TcpProxy
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

COMPACTION_TIMEOUT_S = 180.0
PARTITIONS = 2
NAMESPACE = "lake"
FAST = {
    "iceberg_enabled": "true",
    "linger_ms": "20",
    "compaction_wal_max_age_ms": "500",
    "compaction_interval_ms": "200",
    "spark_ui_port": "0",
}


@dataclass
class World:
    """A running system on S3, with a catalog that can be cut off, and what readers must see."""

    s3: SeaweedFs
    catalog: TcpProxy
    server: TowpathProcess
    config: Path
    expected: dict[str, list[TableRow]] = field(default_factory=dict)

    def produce(self, topic: str, records: list[Sent]) -> None:
        offsets = produce_all(producer(self.server.bootstrap), topic, records)
        rows = [row_of_sent(*sent) for sent in zip(records, offsets, strict=True)]
        self.expected.setdefault(topic, []).extend(rows)

    def check_consumers(self, topic: str) -> None:
        expected = self.expected[topic]
        seen = consume_with_confluent(self.server.bootstrap, topic, PARTITIONS, len(expected))
        assert_same(seen, expected)

    def check_table(self, topic: str) -> None:
        """As anybody sees it who knows the catalog and the bucket."""
        properties = {
            "uri": self.catalog.url,
            "warehouse": "s3://tables",
            "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
            "oauth2-server-uri": f"{self.catalog.url}/v1/oauth/tokens",
            **self.s3.s3_properties(),
        }
        catalog = load_catalog("anybody", type="rest", **properties)
        table = catalog.load_table((NAMESPACE, topic))
        assert_same(read_with_pyiceberg(table), self.expected[topic])
        files = [task.file.file_path for task in table.scan().plan_files()]
        assert all(file.startswith("s3://objects/") for file in files)

    def wait_until_in_parquet(self, topic: str) -> None:
        wait_until(
            lambda: is_in_parquet(self.server.data_dir, topic),
            f"{topic} in Parquet files",
            timeout_s=COMPACTION_TIMEOUT_S,
            interval_s=0.2,
        )


SETTINGS = """
objects_url: s3://objects/{prefix}
objects_options:
  endpoint: {s3_url}
  region: us-east-1
  access_key_id: ${{TEST_S3_KEY}}
  secret_access_key: ${{TEST_S3_SECRET}}
iceberg_namespace: {namespace}
iceberg_catalog:
  uri: {catalog_url}
  warehouse: s3://tables
  credential: ${{TEST_S3_KEY}}:${{TEST_S3_SECRET}}
  oauth2-server-uri: {catalog_url}/v1/oauth/tokens
  towpath.table-names: safe
  towpath.table-location: catalog
"""
"""The settings as a user writes them: the tables' way to S3 follows from the objects'."""


@pytest.fixture(scope="module")
def world(s3_server: SeaweedFs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("s3-world")
    catalog = TcpProxy(int(s3_server.catalog_url.rpartition(":")[2]))
    catalog.start()
    config = directory / "towpath.yaml"
    config.write_text(
        SETTINGS.format(
            prefix=uuid.uuid4().hex,
            s3_url=s3_server.s3_url,
            catalog_url=catalog.url,
            namespace=NAMESPACE,
        )
    )
    settings = {**FAST, "config": str(config), "compaction_http_port": str(free_ports())}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TEST_S3_KEY", ACCESS_KEY)
        environment.setenv("TEST_S3_SECRET", SECRET_KEY)
        server = TowpathProcess(directory, settings=settings)
        try:
            server.start()
            yield World(s3_server, catalog, server, config)
        finally:
            server.kill()
            catalog.stop()
            print(server.process.log_tail())


def records_of(partition: int, tag: str, count: int = 300) -> list[Sent]:
    return varied_records(count, partition=partition, tag=tag)


def test_records_become_tables_on_s3(world: World) -> None:
    create_topic(world.server.bootstrap, "orders", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        world.produce("orders", records_of(partition, "first"))
    world.check_consumers("orders")
    world.wait_until_in_parquet("orders")
    world.check_consumers("orders")
    world.check_table("orders")
    for partition in range(PARTITIONS):
        world.produce("orders", records_of(partition, "second"))
    world.wait_until_in_parquet("orders")
    world.check_table("orders")
    assert world.server.stop() == 0
    world.server.restart()  # Nothing is in a cache any more.
    world.check_consumers("orders")


def test_queries_see_the_table_and_the_tail_on_s3(world: World) -> None:
    """DuckDB reads the same Parquet files by ranges; the tail comes out of WAL objects on S3."""
    create_topic(world.server.bootstrap, "asked", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        world.produce("asked", records_of(partition, "table"))
    world.wait_until_in_parquet("asked")
    for tag in ("tail", "more"):
        for partition in range(PARTITIONS):
            world.produce("asked", records_of(partition, tag, count=20))
        # No wait: they were acknowledged.
        assert_same(_ask(world, ""), world.expected["asked"])
    where = "WHERE partition = 1 AND \"offset\" BETWEEN 290 AND 325 AND key = 'key-7'"
    expected = [
        row
        for row in world.expected["asked"]
        if row.partition == 1 and 290 <= row.offset <= 325 and row.key == b"key-7"
    ]
    assert expected
    assert_same(_ask(world, where), expected)


def _ask(world: World, where: str) -> list[TableRow]:
    """What the command finds, as a user calls it."""
    query = f"""
        SELECT partition, "offset", epoch_us(timestamp) AS time, hex(key) AS key,
               hex(value) AS value,
               [{{'key': h.key, 'value': hex(h.value)}} FOR h IN headers] AS headers
        FROM asked {where}
    """
    flags = ("--data-dir", str(world.server.data_dir), "--config", str(world.config))
    done = run_towpath("sql", query, *flags, "--output", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [
        TableRow(
            row["partition"],
            row["offset"],
            row["time"],
            _unhex(row["key"]),
            _unhex(row["value"]),
            tuple((header["key"], _unhex(header["value"])) for header in row["headers"]),
        )
        for row in json.loads(done.stdout)
    ]


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def test_a_store_that_does_not_answer_is_told_in_one_line(world: World) -> None:
    wrong = json.dumps({**world.s3.s3_options(), "secret_access_key": "geheim"})
    flags = ("--data-dir", str(world.server.data_dir), "--config", str(world.config))
    query = "SELECT count(value) FROM asked"
    done = run_towpath("sql", query, *flags, "--set", f"objects_options={wrong}")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "SignatureDoesNotMatch" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "geheim" not in done.stderr


def test_kafka_goes_on_while_the_catalog_is_gone(world: World) -> None:
    create_topic(world.server.bootstrap, "cutoff", partitions=PARTITIONS)
    world.produce("cutoff", records_of(0, "before"))
    world.wait_until_in_parquet("cutoff")
    log_bytes = world.server.process.log_size_bytes()
    world.catalog.cut()
    try:
        for partition in range(PARTITIONS):
            world.produce("cutoff", records_of(partition, "meanwhile"))
        wait_until(
            lambda: "the catalog does not answer" in world.server.process.log_tail(log_bytes),
            "the compactor's complaint",
            timeout_s=COMPACTION_TIMEOUT_S,
        )
        assert not is_in_parquet(world.server.data_dir, "cutoff")
        world.produce("cutoff", records_of(1, "later"))
        world.check_consumers("cutoff")
        assert not is_in_parquet(world.server.data_dir, "cutoff")
    finally:
        world.catalog.restore()
    world.wait_until_in_parquet("cutoff")
    world.check_consumers("cutoff")
    world.check_table("cutoff")


def test_secrets_are_nowhere_to_be_seen(world: World) -> None:
    def run(*arguments: str) -> str:
        data_dir = ("--data-dir", str(world.server.data_dir)) if arguments[0] == "tables" else ()
        done = run_towpath(*arguments, *data_dir, "--config", str(world.config))
        assert done.returncode == 0, done.stderr
        assert SECRET_KEY not in done.stdout + done.stderr
        return done.stdout

    rows = json.loads(run("config", "show", "--output", "json"))
    shown = {row["setting"]: row["value"] for row in rows}
    assert shown["objects_options"]["endpoint"] == world.s3.s3_url
    assert shown["objects_options"]["secret_access_key"] == "***"
    assert shown["iceberg_catalog"]["credential"] == "***"
    assert "secret_access_key=***" in run("config", "show")
    assert "orders" in run("tables", "list")
    assert world.s3.s3_url in run("tables", "describe", "orders")
    assert SECRET_KEY not in world.server.process.log_file.read_text()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"secret_access_key": "geheim"}, "SignatureDoesNotMatch: "),
        ({"endpoint": "http://127.0.0.1:1"}, "Connection refused"),
        (
            {"access_key_id": GUEST_ACCESS_KEY, "secret_access_key": GUEST_SECRET_KEY},
            "AccessDenied: ",
        ),
        ({"secret_acess_key": "geheim"}, "did you mean 'secret_access_key'?"),
    ],
)
def test_a_store_that_cannot_be_used_stops_the_broker_with_one_line(
    s3_server: SeaweedFs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, str],
    message: str,
) -> None:
    options = {**s3_server.s3_options(), **wrong}
    monkeypatch.setenv("TOWPATH_OBJECTS_URL", "s3://objects/x")
    monkeypatch.setenv("TOWPATH_OBJECTS_OPTIONS", json.dumps(options))
    ports = ["--kafka-port", str(free_ports()), "--http-port", str(free_ports())]
    done = run_towpath("up", "--data-dir", str(tmp_path), *ports)
    assert done.returncode == 1
    assert done.stderr.startswith("towpath: cannot start: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert options["secret_access_key"] not in done.stdout + done.stderr
