"""Tables that are not the topic's, and tables of topics that were created again or deleted."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from tests.unit.lakehouse.helpers_iceberg import TOPIC, Lake, append, handle, offsets_by_pyiceberg

from towpath.lakehouse.iceberg.blocking import BlockingTables
from towpath.lakehouse.iceberg.catalog import open_catalog
from towpath.lakehouse.iceberg.names import SAFE_NAME, table_name
from towpath.lakehouse.tables import (
    Change,
    CommitConflict,
    ForeignTable,
    Mark,
    SupersededTable,
    TableMissing,
)
from towpath.objects.fs import FsObjectStore
from towpath.runtime import inline_runtime

AGAIN = replace(TOPIC, number=9, topic_id="another")
THIRD = replace(TOPIC, number=12)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


async def test_a_table_of_somebody_else_is_never_touched(lake: Lake) -> None:
    tables = lake.tables()
    assert await tables.load(TOPIC) is None
    catalog = open_catalog(lake.catalog)
    catalog.create_namespace("towpath")
    theirs = catalog.create_table(
        ("towpath", TOPIC.name),
        Schema(NestedField(1, "x", LongType())),
        f"file://{lake.root}/theirs",
    )
    with pytest.raises(ForeignTable, match="did not make"):
        await tables.load(TOPIC)
    with pytest.raises(ForeignTable):
        await tables.create(TOPIC)
    with pytest.raises(ForeignTable):
        await tables.set_aside(TOPIC)
    assert await tables.drop(TOPIC) == []
    assert catalog.load_table(theirs.name()).metadata_location == theirs.metadata_location
    catalog.close()


async def test_a_table_of_another_cluster_is_foreign(lake: Lake) -> None:
    await lake.tables(cluster_id="cluster-2").create(TOPIC)
    tables = lake.tables()
    with pytest.raises(ForeignTable, match="cluster-2") as raised:
        await tables.load(AGAIN)
    assert not isinstance(raised.value, SupersededTable)
    with pytest.raises(ForeignTable):
        await tables.set_aside(AGAIN)
    assert await tables.drop(TOPIC) == []


async def test_a_topic_created_again_gets_a_table_of_its_own(lake: Lake) -> None:
    tables = lake.tables()
    old = await tables.create(TOPIC)
    old = await tables.commit(old, append(old, (0, lake.write(old.field_ids, 0, range(3)))))
    with pytest.raises(SupersededTable) as raised:
        await tables.load(AGAIN)
    assert raised.value.number == TOPIC.number
    with pytest.raises(SupersededTable):
        await tables.create(AGAIN)
    assert await tables.set_aside(AGAIN) == f"{TOPIC.name}__7"
    assert await tables.set_aside(AGAIN) is None
    assert await tables.load(AGAIN) is None
    new = await tables.create(AGAIN)
    new = await tables.commit(new, append(new, (0, lake.write(new.field_ids, 0, range(5)))))
    assert await tables.set_aside(AGAIN) is None
    assert len(offsets_by_pyiceberg(new)) == 5
    with pytest.raises(ForeignTable):
        await tables.load(TOPIC)
    with pytest.raises((CommitConflict, TableMissing)):
        await tables.commit(old, Change({0: Mark(4, "late")}))
    assert await tables.set_aside(THIRD) == f"{TOPIC.name}__9"


async def test_dropping_finds_what_was_set_aside(lake: Lake) -> None:
    tables = lake.tables()
    old = await tables.create(TOPIC)
    file = lake.write(old.field_ids, 0, range(3))
    await tables.commit(old, append(old, (0, file)))
    assert await tables.set_aside(AGAIN) is not None
    new = await tables.create(AGAIN)
    new = await tables.commit(new, append(new, (0, lake.write(new.field_ids, 0, range(5)))))
    assert await tables.drop(TOPIC) == [file.path]
    assert await tables.drop(TOPIC) == []
    assert len(offsets_by_pyiceberg(new)) == 5
    assert await tables.load(AGAIN) == new


async def test_a_drop_tells_every_data_file_and_deletes_the_metadata(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    old = lake.write(table.field_ids, 0, range(3))
    table = await tables.commit(table, append(table, (0, old)))
    newer = lake.write(table.field_ids, 0, range(3))
    table = await tables.commit(
        table, Change({0: Mark(3, "t", "r")}, [(0, newer)], [(0, old)], changes_rows=False)
    )
    assert await tables.drop(TOPIC) == sorted([old.path, newer.path])
    assert lake.metadata_files() == set()
    assert (lake.objects / old.path).exists()


async def test_a_late_renaming_is_taken_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old table is set aside and dropped by others between our look and our renaming."""
    tables, others = lake.tables(), lake.tables()
    await tables.create(TOPIC)
    find = BlockingTables._find
    stale = find(tables._tables, TOPIC.name)
    assert await others.set_aside(AGAIN) is not None
    assert await others.drop(TOPIC) == []
    new = await others.create(AGAIN)
    monkeypatch.setattr(BlockingTables, "_find", lambda self, name: stale)
    with pytest.raises(CommitConflict, match="set aside"):
        await tables.set_aside(AGAIN)
    monkeypatch.undo()
    assert await tables.load(AGAIN) == new


async def test_two_set_the_same_table_aside(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, others = lake.tables(), lake.tables()
    await tables.create(TOPIC)
    find = BlockingTables._find
    stale = [find(tables._tables, TOPIC.name)]
    assert await others.set_aside(AGAIN) == f"{TOPIC.name}__7"
    new = await others.create(AGAIN)

    def found(self: BlockingTables, name: str) -> object:
        return stale.pop() if stale else find(self, name)

    monkeypatch.setattr(BlockingTables, "_find", found)
    assert await tables.set_aside(AGAIN) == f"{TOPIC.name}__7"
    assert await tables.load(AGAIN) == new


async def test_an_unknown_schema_version_is_foreign(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    with handle(table).transaction() as change:
        change.set_properties({"dray.schema_version": "2"})
    with pytest.raises(ForeignTable, match="schema version 2"):
        await tables.load(TOPIC)


async def test_every_file_of_a_name_counts_what_was_set_aside(lake: Lake) -> None:
    tables = lake.tables()
    assert await tables.every_file(TOPIC.name) == []
    paths: set[str] = set()
    for topic in (TOPIC, AGAIN, THIRD):
        await tables.set_aside(topic)
        table = await tables.create(topic)
        files = [lake.write(table.field_ids, 0, range(3)) for _ in range(2)]
        paths.update(file.path for file in files)
        table = await tables.commit(table, append(table, (0, files[0])))
        await tables.commit(
            table,
            Change({0: Mark(3, "t", "r")}, [(0, files[1])], [(0, files[0])], changes_rows=False),
        )
    other = await tables.create(replace(TOPIC, name=f"{TOPIC.name}__x", number=20))
    await tables.commit(other, append(other, (0, lake.write(other.field_ids, 0, range(2)))))
    assert await lake.tables().every_file(TOPIC.name) == sorted(paths)


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("orders_2", "orders_2"),
        ("Orders.eu", "orders_eu_DIGEST"),
        ("orders-eu", "orders_eu_DIGEST"),
        ("_schemas", "schemas_DIGEST"),
        ("...", "topic_DIGEST"),
        ("x" * 249, "x" * 200 + "_DIGEST"),
    ],
)
def test_safe_names(topic: str, name: str) -> None:
    assert table_name(topic, safe=False) == topic
    found = table_name(topic, safe=True)
    assert SAFE_NAME.fullmatch(found)
    assert re.fullmatch(name.replace("DIGEST", "[0-9a-f]{8}"), found)


@given(st.sets(st.text("aA.-_1", min_size=1, max_size=6), min_size=2))
def test_safe_names_differ(topics: set[str]) -> None:
    assert len({table_name(topic, safe=True) for topic in topics}) == len(topics)


async def test_a_catalog_with_safe_names(lake: Lake) -> None:
    settings = {**lake.catalog.properties, "towpath.table-names": "safe"}
    lake.catalog = replace(lake.catalog, properties=settings)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    assert table.identifier.startswith("towpath.orders_eu_1_")
    assert handle(table).metadata.properties["dray.topic"] == TOPIC.name
    file = lake.write(table.field_ids, 0, range(3))
    table = await tables.commit(table, append(table, (0, file)))
    assert await tables.load(TOPIC) == table
    assert await tables.every_file(TOPIC.name) == [file.path]
    assert await tables.set_aside(AGAIN) == f"{table_name(TOPIC.name, safe=True)}__7"
    assert await tables.every_file(TOPIC.name) == [file.path]
    assert await tables.drop(TOPIC) == [file.path]


async def test_another_topics_table_is_not_superseded(lake: Lake) -> None:
    """Whatever the names, only an earlier topic of the same name may be set aside."""
    tables = lake.tables()
    table = await tables.create(TOPIC)
    with handle(table).transaction() as change:
        change.set_properties({"dray.topic": "another"})
    with pytest.raises(ForeignTable, match="another") as raised:
        await tables.set_aside(AGAIN)
    assert not isinstance(raised.value, SupersededTable)


async def test_the_catalog_may_choose_the_place(lake: Lake) -> None:
    settings = {
        **lake.catalog.properties,
        "towpath.table-location": "catalog",
        "warehouse": f"file://{lake.root}/warehouse",
    }
    lake.catalog = replace(lake.catalog, properties=settings)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    location = f"file://{lake.root}/warehouse/towpath/{TOPIC.name}"
    assert handle(table).metadata.location == location
    table = await tables.commit(table, append(table, (0, lake.write(table.field_ids, 0, [0]))))
    assert offsets_by_pyiceberg(table) == [(0, 0)]
    store = FsObjectStore(str(lake.objects), inline_runtime())
    lake.clock.time_ms = 1 << 50
    assert await tables.sweep_metadata(table, store.list, store.delete) == 0
    await store.close()
    with pytest.raises(ValueError, match="objects or catalog"):
        replace(lake.catalog, properties={"towpath.table-location": "moon"})
