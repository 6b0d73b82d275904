"""A few records of a tail, shown without Arrow: the same as with it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.query.helpers_typed import TypedLake

from towpath.config.settings import Settings
from towpath.query import few_tail, views
from towpath.query.engine import TopicQueries
from towpath.query.few_tail import FEW_RECORDS
from towpath.query.statement import QueryFailed
from towpath.records import compression
from towpath.records.batch import BatchInfo
from towpath.records.build import NewRecord, ProducerFields, build_batch

FIRST_MS = 1_790_000_000_000
ALL = 'SELECT * FROM orders ORDER BY partition, "offset"'


@pytest.fixture
def lake(tmp_path: Path) -> TypedLake:
    return TypedLake(Settings(data_dir=tmp_path / "data"))


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has it done as in a process without Arrow; the tables that were made."""
    made: list[str] = []

    def make_table(connection: Any, table: str, *given: Any) -> None:
        few_tail.make_table(connection, table, *given)
        made.append(table)

    monkeypatch.setattr(few_tail, "_arrow_is_loaded", lambda: False)
    monkeypatch.setattr(views, "make_table", make_table)
    return made


def some_batch(seed: int, records: int | None = None) -> BatchInfo:
    chance = Random(seed)
    made = [
        NewRecord(
            value=None if chance.random() < 0.2 else chance.randbytes(chance.randrange(30)),
            key=None if chance.random() < 0.5 else chance.randbytes(3),
            timestamp_ms=FIRST_MS + chance.randrange(-10_000, 10_000),
            headers=tuple(
                (chance.choice(("", "ä", "same")), chance.choice((None, b"", b"\xff")))
                for _ in range(chance.randrange(3))
            ),
        )
        for _ in range(records or chance.randrange(1, 20))
    ]
    producer = chance.choice(((-1, -1, -1), (7 + seed, 2, 0)))
    codec = chance.choice((compression.NONE, compression.LZ4, compression.ZSTD))
    data = build_batch(made, codec=codec, producer=ProducerFields(*producer))
    times = [record.timestamp_ms for record in made]
    return BatchInfo(data, len(made), min(times), max(times), *producer)


def rows(lake: TypedLake, sql: str) -> list[tuple[Any, ...]]:
    queries = TopicQueries(lake.settings)
    try:
        answer = queries.rows(sql)
        assert answer is not None
        return [row for some in answer for row in some]
    finally:
        queries.close()


def same(lake: TypedLake, tables: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many rows there are, the same either way."""
    few, described = rows(lake, ALL), rows(lake, "DESCRIBE orders")
    assert tables == ["few of orders"] * 2
    with monkeypatch.context() as patch:
        patch.setattr(few_tail, "_arrow_is_loaded", lambda: True)
        assert rows(lake, ALL) == few
        assert rows(lake, "DESCRIBE orders") == described
    assert len(tables) == 2
    return len(few)


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_are_those_of_arrow(
    lake: TypedLake, tables: list[str], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    lake.append_batch("orders", some_batch(100 * seed), partition=1)
    for number in range(1, 4):
        lake.append_batch("orders", some_batch(100 * seed + number), partition=number % 2)
    assert same(lake, tables, monkeypatch) > 0


def test_a_tail_that_begins_inside_a_batch(
    lake: TypedLake, tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append_batch("orders", some_batch(1, records=10))
    lake.append_batch("orders", some_batch(2, records=5))
    lake.delete_before("orders", 7)
    assert same(lake, tables, monkeypatch) == 8


def test_a_tail_behind_files(
    lake: TypedLake, tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append_batch("orders", some_batch(1, records=10))
    lake.compact()
    lake.append_batch("orders", some_batch(2, records=5))
    assert same(lake, tables, monkeypatch) == 15


def test_more_than_a_few_records(lake: TypedLake, tables: list[str]) -> None:
    lake.append_batch("orders", some_batch(1, records=FEW_RECORDS + 1))
    assert rows(lake, "SELECT count(*) FROM orders") == [(FEW_RECORDS + 1,)]
    assert tables == []


def test_typed_columns(lake: TypedLake, tables: list[str]) -> None:
    lake.declare("orders", "json", {"properties": {"id": {"type": "integer"}}})
    lake.append("orders", {"id": 3})
    assert rows(lake, "SELECT id FROM orders") == [(3,)]
    assert tables == []


def test_each_statement_makes_its_own(lake: TypedLake, tables: list[str]) -> None:
    lake.append("orders", b"a")
    lake.append("sales.orders", b"b")
    queries = TopicQueries(lake.settings)

    def count(sql: str) -> Any:
        answer = queries.rows(sql)
        assert answer is not None
        ((found,),) = (row for some in answer for row in some)
        return found

    assert count("SELECT count(*) FROM orders") == 1
    lake.append("orders", b"c")
    assert count("SELECT count(*) FROM orders") == 2
    assert count("BEGIN; SELECT count(*) FROM orders, sales.orders") == 2
    assert queries.rows("COMMIT") is None
    assert count("SELECT count(*) FROM duckdb_tables()") == 0
    queries.close()
    assert set(tables) == {"few of orders", "few of sales.orders"}


def test_an_object_that_is_gone(lake: TypedLake, tables: list[str]) -> None:
    lake.append("orders", b"a")
    root = lake.settings.objects_path()
    assert root is not None
    for path in root.rglob("*.wo"):
        path.unlink()
    with pytest.raises(QueryFailed, match=r"\.wo is gone, and the index still names it"):
        rows(lake, ALL)
