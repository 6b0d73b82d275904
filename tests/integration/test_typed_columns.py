"""Values as columns in the real system: declared late, evolved, mended; every reader sees the same.

One topic goes through its life in the order of the tests of this file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka import KafkaException
from tests.integration.conftest import PEER
from tests.integration.harness.admin import admin_client, create_topic
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.compacted import run_towpath, towpath_tables, wait_until_compacted
from tests.integration.harness.confluent_admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.integration.harness.iceberg_jars import iceberg_jars
from tests.integration.harness.iceberg_spark import IcebergSpark
from tests.integration.harness.table_engines import consume_with_confluent, open_table
from tests.integration.harness.table_rows import TableRow, assert_same, row_of_sent
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.user_spark import UserSpark
from tests.integration.harness.waiting import wait_until

from towpath.config.settings import Settings
from towpath.lakehouse.java import find_java
from towpath.query.engine import TopicQueries
from towpath.reading.index import IndexReader, at_one_moment
from towpath.reading.topic import plan_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

ORDERS, EVENTS = "orders", "events"
PARTITIONS = 2
SETTINGS = {
    "iceberg_enabled": "true",
    "compaction_wal_max_age_ms": "300",
    "compaction_interval_ms": "100",
    "log_retention_ms": "-1",
    "spark_ui_port": "0",
    "compaction_http_port": "0",
}
FIRST_MS = 1_700_000_000_000
BACKFILL_TIMEOUT_S = 120.0
FORMAT, SCHEMA = "towpath.value.format", "towpath.value.schema"


def schema_of(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties})


INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
FIRST = schema_of(id=INTEGER, amount=INTEGER)
MENDED = schema_of(id=INTEGER, amount=NUMBER)
EVOLVED = schema_of(
    id=INTEGER,
    amount=NUMBER,
    at={"type": "string", "format": "date-time"},
    tags={"type": "array", "items": TEXT},
    address={"type": "object", "properties": {"city": TEXT, "zip": INTEGER}},
    scores={"type": "object", "additionalProperties": INTEGER},
)
Row = tuple[Any, ...]


@dataclass
class World:
    """A running system and everything that was sent to it."""

    server: TowpathProcess
    directory: Path
    expected: dict[str, list[TableRow]] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        return self.server.data_dir

    def send(self, topic: str, *values: Any, partition: int = 0) -> None:
        """Send values, JSON of those that are not bytes or None."""
        raw = [one if isinstance(one, bytes | None) else json.dumps(one).encode() for one in values]
        records = [
            Sent(value, b"k%d" % at, timestamp_ms=FIRST_MS + at, partition=partition)
            for at, value in enumerate(raw)
        ]
        offsets = produce_all(producer(self.server.bootstrap), topic, records)
        self.expected.setdefault(topic, []).extend(
            row_of_sent(*sent) for sent in zip(records, offsets, strict=True)
        )

    def declare(self, topic: str, format_name: str, schema: str) -> None:
        """Declare it as people do: with the command, and the schema in a file."""
        file = self.directory / "schema.json"
        file.write_text(schema)
        done = run_towpath(
            "topics", "alter", topic, "--bootstrap", self.server.bootstrap,
            "--config", f"{FORMAT}={format_name}", "--config", f"{SCHEMA}=@{file}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def wait_until_backfilled(self, topic: str) -> None:
        """Wait until all records are in files with the columns that are declared now."""
        wait_until_compacted(self.data_dir, topic)

        def work(reader: IndexReader) -> bool:
            plan = plan_topic(reader, topic)
            assert plan.typed is not None
            parts = [part for partition in plan.partitions for part in partition.files]
            return all(part.file.value_stamp == plan.typed.stamp for part in parts)

        wait_until(
            lambda: at_one_moment(self.data_dir / "metadata.sqlite", work),
            f"{topic} rewritten",
            timeout_s=BACKFILL_TIMEOUT_S,
        )

    def sql(self, query: str) -> list[Row]:
        """What `towpath sql` answers."""
        queries = TopicQueries(Settings(data_dir=self.data_dir))
        try:
            answer = queries.run(query)
            assert answer is not None
            return [tuple(row.values()) for batch in answer for row in batch.to_pylist()]
        finally:
            queries.close()

    def in_table(self, topic: str, *columns: str) -> list[Row]:
        """What pyiceberg reads, by partition and offset."""
        found = open_table(self.data_dir, topic).scan().to_arrow()
        rows = found.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
        return [tuple(row[name] for name in ("partition", "offset", *columns)) for row in rows]

    def assert_consumers_see_what_was_sent(self, topic: str, partitions: int) -> None:
        """Kafka's records do not change, whatever is made of their values."""
        expected = self.expected[topic]
        seen = consume_with_confluent(self.server.bootstrap, topic, partitions, len(expected))
        assert_same(seen, expected)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("typed")
    server = TowpathProcess(directory, settings=SETTINGS)
    server.start()
    create_topic(server.bootstrap, ORDERS, partitions=PARTITIONS)
    made = World(server, directory)
    yield made
    server.stop()


SQL = f'SELECT partition, "offset", id, amount, value_error FROM {ORDERS} ORDER BY 1, 2'
AFTER_FIRST: list[Row] = [
    (0, 0, 1, 5, None),
    (0, 1, None, None, "amount: 2.5 is not an integer"),
    (0, 2, None, None, "not JSON: Expecting value at character 0"),
    (1, 0, 4, 7, None),
    (1, 1, None, None, None),
]
AFTER_MENDING: list[Row] = [
    (0, 0, 1, 5.0, None),
    (0, 1, 2, 2.5, None),
    AFTER_FIRST[2],
    (1, 0, 4, 7.0, None),
    AFTER_FIRST[4],
]


def test_a_late_declaration_covers_what_is_there(world: World) -> None:
    world.send(ORDERS, {"id": 1, "amount": 5}, {"id": 2, "amount": 2.5}, b"?!")
    wait_until_compacted(world.data_dir, ORDERS)
    world.send(ORDERS, {"id": 4, "amount": 7}, None, partition=1)
    world.declare(ORDERS, "json", FIRST)
    assert world.sql(SQL) == AFTER_FIRST  # At once, wherever the records lie.
    world.wait_until_backfilled(ORDERS)
    assert world.sql(SQL) == AFTER_FIRST
    assert world.in_table(ORDERS, "id", "amount", "value_error") == AFTER_FIRST
    errors = f'SELECT partition, "offset", value, error FROM {ORDERS}__errors ORDER BY 1, 2'
    assert world.sql(errors) == [
        (0, 1, b'{"id": 2, "amount": 2.5}', AFTER_FIRST[1][4]),
        (0, 2, b"?!", AFTER_FIRST[2][4]),
    ]
    world.assert_consumers_see_what_was_sent(ORDERS, PARTITIONS)
    assert (
        towpath_tables(world.data_dir, "describe", ORDERS)["values"] == "json, 2 columns declared"
    )


def test_a_bad_schema_is_refused_and_changes_nothing(world: World) -> None:
    client = admin_client(world.server.bootstrap)
    bad = schema_of(id={"type": "strong"})
    entry = ConfigEntry(SCHEMA, bad, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, ORDERS, incremental_configs=[entry])
    (future,) = client.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException) as failure:
        future.result(30)
    assert failure.value.args[0].name() == "INVALID_CONFIG"
    assert "'strong' is not one of" in failure.value.args[0].str()
    (described,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, ORDERS)]).values()
    assert described.result(30)[SCHEMA].value == FIRST


def test_a_mended_schema_replays_what_did_not_fit(world: World) -> None:
    before = open_table(world.data_dir, ORDERS).schema().find_field("amount").field_id
    world.declare(ORDERS, "json", MENDED)
    world.wait_until_backfilled(ORDERS)
    assert world.sql(SQL) == AFTER_MENDING
    assert world.in_table(ORDERS, "id", "amount", "value_error") == AFTER_MENDING
    table = open_table(world.data_dir, ORDERS)
    assert table.schema().find_field("amount_long").field_id == before
    world.assert_consumers_see_what_was_sent(ORDERS, PARTITIONS)


def test_evolution_adds_columns_for_every_reader(world: World) -> None:
    value = {
        "id": 9,
        "at": "2026-01-31T12:00:00Z",
        "tags": ["a", "b"],
        "address": {"city": "Ghent", "zip": 9000},
        "scores": {"x": 1},
    }
    world.declare(ORDERS, "json", EVOLVED)
    world.send(ORDERS, value, partition=1)
    query = (
        "SELECT id, epoch(\"at\"), tags, address.city, address.zip, scores['x'] "
        f'FROM {ORDERS} WHERE partition = 1 AND "offset" = 2'
    )
    wanted = (9, 1769860800.0, ["a", "b"], "Ghent", 9000, 1)
    assert world.sql(query) == [wanted]
    world.wait_until_backfilled(ORDERS)
    assert world.sql(query) == [wanted]
    found = world.in_table(ORDERS, "id", "tags", "address", "scores")
    assert found[-1][2:] == (9, ["a", "b"], {"city": "Ghent", "zip": 9000}, [("x", 1)])
    assert [row[:3] for row in found[:-1]] == [row[:3] for row in AFTER_MENDING]
    world.assert_consumers_see_what_was_sent(ORDERS, PARTITIONS)


def test_spark_reads_the_same_columns_of_the_table(world: World) -> None:
    find_java(world.directory / "java")
    iceberg_jars()
    spark = IcebergSpark(world.directory, world.data_dir)
    spark.start()
    try:
        name = spark.name_of(ORDERS)
        found = spark.query(
            "SELECT `partition`, `offset`, id, amount, value_error, size(tags), address.zip, "
            f"scores['x'], unix_seconds(`at`) FROM {name} ORDER BY 1, 2"
        )
        assert [row[:5] for row in found] == [*AFTER_MENDING, (1, 2, 9, None, None)]
        assert found[-1][5:] == (2, 9000, 1, 1769860800)
        errors = spark.query(f"SELECT `offset` FROM {name} WHERE value_error IS NOT NULL")
        assert errors == [(2,)]
    finally:
        spark.stop()


def live(session: SparkSession, data_dir: str) -> list[Row]:
    """In the session's process: the topic through Towpath's own source."""
    options = {"data-dir": data_dir, "topic": ORDERS}
    frame = session.read.format("towpath").options(**options).load()
    columns = ["partition", "offset", "id", "amount", "value_error", "address.zip", "scores['x']"]
    return sorted(tuple(row) for row in frame.selectExpr(*columns).collect())


def test_spark_reads_the_same_columns_of_the_live_topic(world: World) -> None:
    world.send(ORDERS, {"id": 10, "address": {"zip": 1}}, {"id": None}, partition=1)
    spark = UserSpark(world.directory)
    spark.start()
    try:
        found = spark.call(live, data_dir=str(world.data_dir))
    finally:
        spark.stop()
    assert [row[:5] for row in found[:-3]] == AFTER_MENDING
    assert [row[2:] for row in found[-3:]] == [
        (9, None, None, 9000, 1),
        (10, None, None, 1, None),
        (None, None, "id: null is not an integer", None, None),
    ]


def test_avro_behind_a_registry_s_prefix(world: World) -> None:
    one = {"type": "record", "name": "E", "fields": [{"name": "user", "type": "string"}]}
    two = {
        "type": "record",
        "name": "E",
        "fields": [*one["fields"], {"name": "clicks", "type": ["null", "long"]}],
    }

    def encoded(number: int, schema: Any, value: Any) -> bytes:
        out = io.BytesIO(b"")
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
        return b"\0" + number.to_bytes(4, "big") + out.getvalue()

    create_topic(world.server.bootstrap, EVENTS, partitions=1)
    world.declare(EVENTS, "avro-registry", json.dumps({"1": one}))
    world.send(EVENTS, encoded(1, one, {"user": "a"}), encoded(2, two, {"user": "b", "clicks": 3}))
    world.wait_until_backfilled(EVENTS)
    assert world.in_table(EVENTS, "user", "value_error") == [
        (0, 0, "a", None),
        (0, 1, None, "no schema has the id 2"),
    ]
    world.declare(EVENTS, "avro-registry", json.dumps({"1": one, "2": two}))
    world.wait_until_backfilled(EVENTS)
    assert world.in_table(EVENTS, "user", "clicks", "value_error") == [
        (0, 0, "a", None, None),
        (0, 1, "b", 3, None),
    ]
    world.assert_consumers_see_what_was_sent(EVENTS, 1)
