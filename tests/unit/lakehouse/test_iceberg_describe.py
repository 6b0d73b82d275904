"""What people are told about tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from tests.unit.lakehouse.helpers_iceberg import CLOCK_MS, START_MS, TOPIC, Lake, append

from towpath.lakehouse.iceberg.catalog import open_catalog
from towpath.lakehouse.iceberg.describe import TableReader
from towpath.lakehouse.tables import CatalogUnavailable, Change, Mark, TableMissing


async def test_tables_snapshots_and_files(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    await tables.create(replace(TOPIC, name="empty", number=8))
    files = [lake.write(table.field_ids, 1, range(at, at + 5)) for at in (5, 0)]
    for number, file in enumerate(files):
        lake.clock.time_ms += 1_000
        table = await tables.commit(table, append(table, (1, file), task=f"task-{number}"))
    large = lake.write(table.field_ids, 1, range(10))
    removed = [(1, file) for file in files]
    table = await tables.commit(
        table, Change({1: Mark(10, "task-1", "r1")}, [(1, large)], removed, changes_rows=False)
    )
    with TableReader(lake.catalog) as reader:
        empty, orders = reader.tables()
        snapshots = reader.snapshots(TOPIC.name)
        (described,) = reader.files(TOPIC.name)
        assert reader.snapshots("empty") == []
        assert reader.files("empty") == []
    assert (empty.topic, empty.rows, empty.snapshot_id, empty.marks) == ("empty", 0, None, {})
    assert (orders.topic, orders.topic_number, orders.rows, orders.files) == (TOPIC.name, 7, 10, 1)
    assert orders.size_bytes == large.size_bytes
    assert (orders.snapshots, orders.snapshot_id) == (3, table.snapshot_id)
    assert orders.marks == {1: Mark(10, "task-1", "r1")}
    assert orders.partition_fields == ("partition",)
    assert [one.operation for one in snapshots] == ["replace", "append", "append"]
    assert [one.is_current for one in snapshots] == [True, False, False]
    assert snapshots[0].parent_id == snapshots[1].snapshot_id
    assert [one.offsets for one in snapshots] == [{1: 10}] * 3
    assert [one.tasks for one in snapshots] == [("r1",), ("task-1",), ("task-0",)]
    replacing = snapshots[0]
    assert (replacing.added_files, replacing.deleted_files) == (1, 2)
    assert (replacing.added_rows, replacing.deleted_rows, replacing.total_rows) == (10, 10, 10)
    assert snapshots[-1].committed_at_ms == CLOCK_MS + 1_000
    assert described.uri == f"file://{lake.objects}/{large.path}"
    assert (described.partition, described.rows, described.size_bytes) == (1, 10, large.size_bytes)
    assert (described.first_offset, described.last_offset) == (0, 9)
    assert (described.min_timestamp_ms, described.max_timestamp_ms) == (START_MS, START_MS + 9)


async def test_tables_of_others_are_listed_too(tmp_path: Path) -> None:
    lake = Lake.at(tmp_path)
    catalog = open_catalog(lake.catalog)
    catalog.create_namespace("towpath")
    schema = Schema(NestedField(1, "x", LongType()))
    catalog.create_table(("towpath", "theirs"), schema, f"file://{tmp_path}/theirs")
    catalog.close()
    with TableReader(lake.catalog) as reader:
        (theirs,) = reader.tables()
    assert (theirs.name, theirs.topic, theirs.marks) == ("theirs", None, {})


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with TableReader(Lake.at(tmp_path).catalog) as reader:
        assert reader.tables() == []
        with pytest.raises(TableMissing, match="no table"):
            reader.files("x")
    (tmp_path / "catalog.sqlite").write_bytes(b"this is not a database" * 100)
    with pytest.raises(CatalogUnavailable):
        TableReader(Lake.at(tmp_path).catalog)
