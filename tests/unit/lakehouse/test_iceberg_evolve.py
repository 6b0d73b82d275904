"""Typed columns in a real catalog: they come, grow and change names; none goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import StringType
from tests.unit.lakehouse.helpers_iceberg import TOPIC, Lake, append, handle

from towpath.lakehouse.tables import CommitConflict, Table, TableError, TableMissing
from towpath.records.table import DEFAULT_FIELD_IDS
from towpath.typed import types
from towpath.typed.types import Field, ListOf, MapOf, Struct


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


def column(name: str, kind: types.Type, number: int) -> Field:
    return Field(name, kind, name, number)


def typed(table: Table) -> dict[int, str]:
    """Columns beside the raw ones: id, and name and type."""
    fields = handle(table).schema().fields
    return {one.field_id: f"{one.name} {one.field_type}" for one in fields if one.field_id >= 1000}


async def test_columns_come_and_grow(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    table = await tables.evolve(
        table, (column("a", types.INT, 1000), column("b", types.FLOAT, 1001))
    )
    assert typed(table) == {1000: "a int", 1001: "b float"}
    assert table.last_field_id == 1001
    table = await tables.evolve(
        table, (column("a", types.LONG, 1000), column("c", types.DATE, 1002))
    )
    assert typed(table) == {1000: "a long", 1001: "b float", 1002: "c date"}
    # What is narrower, or there already, changes nothing: not even the metadata file.
    again = await tables.evolve(
        table, (column("a", types.INT, 1000), column("c", types.DATE, 1002))
    )
    assert handle(again).metadata_location == handle(table).metadata_location
    assert table.field_ids == DEFAULT_FIELD_IDS
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    assert typed(loaded) == typed(table)
    await tables.close()


async def test_parts_of_columns_come_and_stay(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    inner = Struct((column("x", types.INT, 1002),))
    wider = Struct((column("x", types.LONG, 1002), column("y", ListOf(types.STRING, 1004), 1003)))
    for kind in (inner, wider, inner):
        table = await tables.evolve(table, (column("s", ListOf(kind, 1001), 1000),))
    found = handle(table).schema()
    assert str(found.find_type("s.element.x")) == "long"
    assert found.find_field("s.element.y.element").field_id == 1004
    table = await tables.evolve(table, (column("m", MapOf(wider, 1011, 1012), 1010),))
    assert handle(table).schema().find_field("m.value.y").field_id == 1003
    await tables.close()


async def test_another_type_takes_the_name_and_the_other_column_stays(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    one, two = column("a", types.LONG, 1000), column("A", types.DOUBLE, 1001)
    table = await tables.evolve(table, (one,))
    table = await tables.evolve(table, (two,))
    assert typed(table) == {1000: "a_long long", 1001: "A double"}
    table = await tables.evolve(table, (one,))
    assert typed(table) == {1000: "a long", 1001: "A_double double"}
    await tables.close()


async def test_who_planned_on_another_state_conflicts(lake: Lake) -> None:
    tables, others = lake.tables(), lake.tables()
    old = await tables.create(TOPIC)
    new = await others.evolve(old, (column("a", types.LONG, 1000),))
    with pytest.raises(CommitConflict):
        await tables.evolve(old, (column("b", types.LONG, 1001),))
    # A commit that was planned before the columns came conflicts as well, and loses nothing.
    file = lake.write(old.field_ids, 0, range(3))
    with pytest.raises(CommitConflict):
        await tables.commit(old, append(old, (0, file)))
    after = await tables.commit(new, append(new, (0, file)))
    assert typed(after) == {1000: "a long"}
    await others.drop(TOPIC)
    with pytest.raises(TableMissing):
        await tables.evolve(after, (column("b", types.LONG, 1001),))
    await tables.close()
    await others.close()


async def test_a_foreign_column_keeps_its_id(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    with handle(table).update_schema() as update:
        update.add_column("note", StringType())
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    number = handle(loaded).schema().find_field("note").field_id
    with pytest.raises(TableError, match="the id of the column 'x' is that of a column of type"):
        await tables.evolve(loaded, (column("x", types.LONG, number),))
    table = await tables.evolve(loaded, (column("note", types.LONG, 1000),))
    assert handle(table).schema().find_field("note_string").field_id == number
    await tables.close()
