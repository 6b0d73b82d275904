"""Typed columns in SQL and in the Iceberg table itself: the same wherever a record lies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.helpers_typed import TypedLake

from towpath.config.settings import Settings
from towpath.objects.worker import open_worker_objects
from towpath.query import engine
from towpath.query.engine import TopicQueries
from towpath.query.service_files import ServiceFiles
from towpath.query.statement import QueryFailed
from towpath.reading.index import at_one_moment
from towpath.reading.rows import rows_of
from towpath.reading.topic import plan_topic

INTEGERS = {"properties": {"id": {"type": "integer"}, "amount": {"type": "integer"}}}
NUMBERS = {"properties": {"id": {"type": "integer"}, "amount": {"type": "number"}}}
NESTED = {
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"properties": {"city": {"type": "string"}}},
        "scores": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
}


@pytest.fixture
def lake(tmp_path: Path) -> TypedLake:
    return TypedLake(Settings(data_dir=tmp_path / "data"))


@pytest.fixture
def queries(lake: TypedLake) -> Iterator[TopicQueries]:
    lake.append("orders", {"id": 1, "amount": 5}, {"id": 2, "amount": 2.5})
    opened = TopicQueries(lake.settings)
    yield opened
    opened.close()


def rows(queries: TopicQueries, sql: str) -> list[tuple[Any, ...]]:
    answer = queries.run(sql)
    assert answer is not None
    return [tuple(row.values()) for batch in answer for row in batch.to_pylist()]


def in_table(lake: TypedLake, *columns: str) -> list[tuple[Any, ...]]:
    """The same rows as any reader of Iceberg has them, by offset."""
    found = lake.table("orders").scan().to_arrow().sort_by("offset")
    return [tuple(row[name] for name in columns) for row in found.to_pylist()]


def columns_of(lake: TypedLake) -> dict[str, str]:
    return {
        field.name: str(field.field_type) for field in lake.table("orders").schema().fields[10:]
    }


def test_sql_shows_columns_of_tail_old_files_and_new_files(
    lake: TypedLake, queries: TopicQueries
) -> None:
    sql = 'SELECT "offset", id, amount, value_error FROM orders ORDER BY 1'
    with pytest.raises(QueryFailed, match="id"):
        queries.run(sql)
    lake.compact()
    lake.append("orders", {"id": 3, "amount": 7}, b"?", None)
    lake.declare("orders", "json", INTEGERS)
    wanted = [
        (0, 1, 5, None),
        (1, None, None, "amount: 2.5 is not an integer"),
        (2, 3, 7, None),
        (3, None, None, "not JSON: Expecting value at character 0"),
        (4, None, None, None),
    ]
    assert rows(queries, sql) == wanted  # Old file and tail.
    lake.compact(rounds=1)
    assert rows(queries, sql) == wanted  # Old file and new file.
    lake.compact()
    assert rows(queries, sql) == wanted  # New files only.
    assert in_table(lake, "offset", "id", "amount", "value_error") == wanted
    assert rows(queries, 'SELECT "offset", error FROM orders__errors ORDER BY 1') == [
        (1, wanted[1][3]),
        (3, wanted[3][3]),
    ]
    assert rows(
        queries, 'SELECT count(*) FROM orders o JOIN orders__errors e USING ("offset")'
    ) == [(2,)]


def test_a_mended_schema_replays_and_the_old_column_stays(
    lake: TypedLake, queries: TopicQueries
) -> None:
    lake.declare("orders", "json", INTEGERS)
    lake.compact()
    assert rows(queries, "SELECT value, error FROM orders__errors") == [
        (b'{"id": 2, "amount": 2.5}', "amount: 2.5 is not an integer")
    ]
    before = lake.table("orders").schema()
    lake.declare("orders", "json", NUMBERS)
    sql = 'SELECT "offset", id, amount, value_error FROM orders ORDER BY 1'
    wanted = [(0, 1, 5.0, None), (1, 2, 2.5, None)]
    assert rows(queries, sql) == wanted
    lake.compact()
    assert rows(queries, sql) == wanted
    assert rows(queries, "SELECT * FROM orders__errors") == []
    assert in_table(lake, "offset", "id", "amount", "value_error") == wanted
    assert in_table(lake, "amount_long") == [(None,), (None,)]
    after = lake.table("orders").schema()
    assert after.find_field("amount_long").field_id == before.find_field("amount").field_id
    assert columns_of(lake) == {
        "id": "long",
        "amount_long": "long",
        "value_error": "string",
        "amount": "double",
    }
    # And back again: the names change places.
    lake.declare("orders", "json", INTEGERS)
    lake.compact()
    assert in_table(lake, "amount", "amount_double") == [(5, None), (None, None)]
    assert lake.table("orders").schema().find_field("amount") == before.find_field("amount")


def test_nested_columns_everywhere(lake: TypedLake, queries: TopicQueries) -> None:
    value = {
        "id": 3,
        "at": "2026-01-31T12:00:00Z",
        "tags": ["a"],
        "address": {"city": "Ghent"},
        "scores": {"x": 1},
    }
    lake.declare("orders", "json", NESTED)
    lake.append("orders", value)
    sql = (
        "SELECT epoch(\"at\"), tags, address.city, scores['x'], amount FROM orders "
        'WHERE "offset" <> 1 ORDER BY "offset"'
    )
    wanted = [(None, None, None, None, 5.0), (1769860800.0, ["a"], "Ghent", 1, None)]
    assert rows(queries, sql) == wanted
    lake.compact()
    assert rows(queries, sql) == wanted
    found = in_table(lake, "tags", "address", "scores")
    assert found[2] == (["a"], {"city": "Ghent"}, [("x", 1)])
    wider = {
        "properties": {
            **NESTED["properties"],
            "address": {"properties": {"zip": {"type": "integer"}}},
        }
    }
    lake.declare("orders", "json", wider)
    lake.append("orders", {"address": {"city": "Bruges", "zip": 8000}})
    lake.compact()
    assert columns_of(lake)["address"].count("optional") == 2
    assert in_table(lake, "address")[3] == ({"city": None, "zip": 8000},)
    assert rows(queries, 'SELECT address FROM orders WHERE "offset" = 3') == [
        ({"city": None, "zip": 8000},)
    ]


def test_inferred_columns_in_files_of_different_ages(
    lake: TypedLake, queries: TopicQueries
) -> None:
    lake.declare("orders", "json", "infer")
    assert rows(queries, "SELECT count(*) FROM orders") == [(2,)]
    lake.compact()
    lake.append("orders", {"id": 3, "note": {"a": 1}})
    lake.compact()
    lake.append("orders", {"id": 4, "note": {"a": 2, "b": "x"}, "not yet": 1})
    sql = 'SELECT id, amount, note.a, value_error FROM orders ORDER BY "offset"'
    wanted: list[tuple[Any, ...]] = [
        (1, 5, None, None),
        (None, None, None, "amount: 2.5 is not an integer"),
        (3, None, 1, None),
        (4, None, 2, None),
    ]
    assert rows(queries, sql) == wanted
    lake.compact()
    assert rows(queries, sql) == wanted
    assert rows(queries, 'SELECT note.b, "not yet" FROM orders WHERE id = 4') == [("x", 1)]
    assert in_table(lake, "id", "not yet")[3] == (4, 1)
    assert in_table(lake, "note")[2:] == [({"a": 1, "b": None},), ({"a": 2, "b": "x"},)]


def test_columns_of_files_on_a_service(lake: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """There Python reads for DuckDB, and decodes for it, in several of its threads."""
    monkeypatch.setattr(engine, "_files", lambda _, *store: ServiceFiles(*store))
    total = 0
    for number in range(4):
        values = range(number * 20_000, (number + 1) * 20_000)
        lake.append("orders", *({"id": value, "amount": value / 2} for value in values))
        lake.compact(rounds=1)
        total += sum(values)
    lake.declare("orders", "json", NUMBERS)
    queries = TopicQueries(lake.settings)
    sql = "SELECT count(*), sum(id), sum(amount), count(value_error) FROM orders"
    wanted = [(80_000, total, total / 2, 0)]
    assert rows(queries, sql) == wanted
    lake.compact()
    assert rows(queries, sql) == wanted
    lake.declare("orders", "json", "infer")
    assert rows(queries, "SELECT count(*) FROM orders__errors") == [(0,)]
    lake.compact()
    found = "SELECT count(*), sum(id), sum(amount) FROM orders WHERE id <> 1"
    (row,) = rows(queries, found)
    assert row == (79_999, total - 1, total / 2 - 0.5)
    queries.close()


def test_a_topic_without_a_declaration_has_no_errors(
    lake: TypedLake, queries: TopicQueries
) -> None:
    with pytest.raises(QueryFailed, match="does not declare what its values are"):
        queries.run("SELECT * FROM orders__errors")
    with pytest.raises(QueryFailed, match="there is no topic 'nothing__errors'"):
        queries.run("SELECT * FROM nothing__errors")
    lake.append("orders__errors", b"its own")
    assert rows(queries, "SELECT value FROM orders__errors") == [(b"its own",)]


def test_rows_of_parts_with_some_columns(lake: TypedLake, queries: TopicQueries) -> None:
    lake.declare("orders", "json", INTEGERS)
    lake.compact()
    lake.declare("orders", "json", NUMBERS)
    lake.append("orders", {"id": 3, "amount": 1})
    path = lake.settings.metadata_path()
    assert path is not None
    objects = open_worker_objects(lake.settings.objects_url)

    def read(*columns: str) -> list[tuple[Any, ...]]:
        plan = at_one_moment(path, lambda reader: plan_topic(reader, "orders"))
        (partition,) = plan.partitions
        return [
            tuple(row.values())
            for part in partition.parts
            for batch in rows_of(objects, 0, part, list(columns) or None, plan.typed)
            for row in batch.to_pylist()
        ]

    wanted = [(5.0, 0, 1), (2.5, 1, 2), (1.0, 2, 3)]
    assert read("amount", "offset", "id") == wanted
    lake.compact()
    assert read("amount", "offset", "id") == wanted
    assert [row[0] for row in read("value_error")] == [None] * 3
    assert len(read()[0]) == 13


def test_columns_are_the_same_wherever_records_lie(lake: TypedLake) -> None:
    """In the tail, in files, or nowhere."""
    lake.declare("plain", None)
    lake.declare("nested", "json", NESTED)
    queries = TopicQueries(lake.settings)
    for name in ("plain", "nested"):
        sql = f"DESCRIBE {name}"
        empty = rows(queries, sql)
        assert rows(queries, f"SELECT * FROM {name}") == []
        lake.append(name, {"id": 1})
        assert rows(queries, sql) == empty
        lake.compact()
        assert rows(queries, sql) == empty
        lake.append(name, {"id": 2})
        assert rows(queries, sql) == empty
    queries.close()


def test_the_table_tells_what_is_null_so_that_readers_skip_files(lake: TypedLake) -> None:
    lake.declare("orders", "json", INTEGERS)
    lake.append("orders", {"id": 1}, {"id": "x"})
    lake.compact()
    table = lake.table("orders")
    (task,) = table.scan().plan_files()
    error, number = (table.schema().find_field(name).field_id for name in ("value_error", "id"))
    assert task.file.null_value_counts[error] == 1
    assert task.file.null_value_counts[number] == 1
    assert task.file.value_counts[number] == 2
    assert table.scan(row_filter="value_error is not null").to_arrow()["offset"].to_pylist() == [1]
