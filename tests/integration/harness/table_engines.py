"""Readers of tables and topics that share no code with Towpath's own: each gives `TableRow`s."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from tests.integration.harness.clients import assigned_consumer, take
from tests.integration.harness.kafka_python import KafkaConsumer, TopicPartition
from tests.integration.harness.table_rows import TableRow, row_of_pairs

NAMESPACE = "towpath"
CONSUME_TIMEOUT_S = 60.0
EXTENSIONS = ("avro", "iceberg")
# Otherwise Polars warns that a plan made by pyiceberg is slower than one by a package of its own.
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"
DUCKDB_COLUMNS = 'partition, "offset", epoch_us("timestamp"), key, value, headers'


def open_table(data_dir: Path, name: str) -> Table:
    """A topic's table as a user of pyiceberg opens it."""
    catalog = load_catalog("towpath", type="sql", uri=f"sqlite:///{data_dir / 'catalog.sqlite'}")
    return catalog.load_table((NAMESPACE, name))


def read_with_pyiceberg(table: Table, **scan: Any) -> list[TableRow]:
    """The rows of a scan."""
    found: pa.Table = table.scan(**scan).to_arrow()
    times = found.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        row_of_pairs(
            row["partition"],
            row["offset"],
            timestamp_us,
            row["key"],
            row["value"],
            map(_pair, row["headers"]),
        )
        for row, timestamp_us in zip(found.to_pylist(), times, strict=True)
    ]


def read_with_duckdb(table: Table, where: str = "true") -> list[TableRow]:
    """The rows of the files that a scan plans."""
    files = [task.file.file_path for task in table.scan().plan_files()]
    with duckdb.connect() as connection:
        source = connection.read_parquet(files, hive_partitioning=False)
        found = source.filter(where).project(DUCKDB_COLUMNS).fetchall()
    return _rows_of_structs(found)


def read_with_polars(table: Table, where: polars.Expr | None = None, **scan: Any) -> list[TableRow]:
    """The rows of a lazy scan, which leaves out what the filter does not want."""
    frame = polars.scan_iceberg(table, **scan)
    if where is not None:
        frame = frame.filter(where)
    found = frame.select(
        "partition",
        "offset",
        polars.col("timestamp").dt.timestamp("us"),
        "key",
        "value",
        "headers",
    ).collect()
    return _rows_of_structs(found.rows())


def has_iceberg_scan() -> bool:
    """Whether DuckDB's Iceberg extension is installed for this very version."""
    return all(_extension(name) is not None for name in EXTENSIONS)


def read_with_iceberg_scan(table: Table) -> list[TableRow]:
    """The rows as DuckDB's own Iceberg reader sees them."""
    with duckdb.connect() as connection:
        for name in EXTENSIONS:
            connection.execute(f"LOAD '{_extension(name)}'")
        query = f"SELECT {DUCKDB_COLUMNS} FROM iceberg_scan('{table.metadata_location}')"
        return _rows_of_structs(connection.execute(query).fetchall())


def _extension(name: str) -> Path | None:
    """The file of an extension from PyPI that fits this DuckDB."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is None or package.origin is None:
        return None
    version = f"v{duckdb.__version__}"
    file = Path(package.origin).parent / "extensions" / version / f"{name}.duckdb_extension"
    return file if file.exists() else None


def _rows_of_structs(found: Sequence[Any]) -> list[TableRow]:
    return [
        row_of_pairs(partition, offset, timestamp_us, key, value, map(_pair, headers))
        for partition, offset, timestamp_us, key, value, headers in found
    ]


def _pair(header: dict[str, Any]) -> tuple[Any, Any]:
    return header["key"], header["value"]


def consume_with_confluent(
    bootstrap: str, topic: str, partitions: int, count: int
) -> list[TableRow]:
    """`count` records from offset 0 of every partition."""
    positions = {(topic, partition): 0 for partition in range(partitions)}
    with assigned_consumer(bootstrap, positions) as client:
        return [
            row_of_pairs(
                message.partition(),
                message.offset(),
                message.timestamp()[1] * 1000,
                message.key(),
                message.value(),
                message.headers() or (),
            )
            for message in take(client, count, CONSUME_TIMEOUT_S)
        ]


def consume_with_kafka_python(
    bootstrap: str, topic: str, partitions: int, count: int
) -> list[TableRow]:
    """The same with a client that shares nothing with librdkafka."""
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    client.assign(places)
    for place in places:
        client.seek(place, 0)
    got: list[Any] = []
    deadline = time.monotonic() + CONSUME_TIMEOUT_S
    try:
        while len(got) < count:
            assert time.monotonic() < deadline, f"{len(got)} of {count} records"
            for records in client.poll(timeout_ms=500, max_records=count - len(got)).values():
                got += records
    finally:
        client.close()
    return [
        row_of_pairs(
            record.partition,
            record.offset,
            record.timestamp * 1000,
            record.key,
            record.value,
            record.headers,
        )
        for record in got
    ]
