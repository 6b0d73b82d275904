"""Answers as Python's values: the same as by way of Arrow, streamed, and let go of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.helpers_rewritten import RewrittenTopic, impatient
from tests.unit.query.test_topic_queries import write

from towpath.cli.sql_output import _json_value, text
from towpath.config.settings import Settings
from towpath.query import engine
from towpath.query.engine import TopicQueries
from towpath.query.rows import ROWS_AT_ONCE, ArrowRows, NativeRows, start_rows
from towpath.query.service_files import ServiceFiles
from towpath.query.statement import QueryFailed

NATIVE = [
    "1::TINYINT", "-2::SMALLINT", "3", "4::BIGINT", "5::UTINYINT", "6::USMALLINT", "7::UINTEGER",
    "18446744073709551615::UBIGINT", "170141183460469231731687303715884105727::HUGEINT",
    "-5::HUGEINT", "NULL::HUGEINT", "sum(1)", "avg(1)", "count(*)", "true", "NULL",
    "0.1::FLOAT", "1e30::FLOAT", "0.1::DOUBLE", "1e300::DOUBLE", "-0.0::DOUBLE", "'nan'::DOUBLE",
    "'-inf'::FLOAT", "1.20::DECIMAL(4,2)", "0.0000001::DECIMAL(10,7)", "0::DECIMAL(5,2)",
    "12345678901234567890.5::DECIMAL(38,2)", "'text'", "''", "'a,\"b'", "'line\nbreak'", "'é'",
    "'\\xFF\\x00'::BLOB", "'abc'::BLOB", "''::BLOB", "'a'::ENUM('a', 'b')", "'{\"a\": 1}'::JSON",
    "DATE '2026-01-02'", "DATE '0001-01-01'", "DATE '9999-12-31'",
    "TIMESTAMP '2026-01-02 03:04:05.678901'", "TIMESTAMP '1969-12-31 23:59:59.999'",
    "'2026-01-02 03:04:05'::TIMESTAMP_S", "'2026-01-02 03:04:05.123'::TIMESTAMP_MS",
    "'2026-01-02 03:04:05.123456'::TIMESTAMP_NS", "TIMESTAMPTZ '2026-01-02 03:04:05.678901+05:30'",
    "TIMESTAMPTZ '0001-01-01 00:00:00+00'", "NULL::TIMESTAMPTZ",
    "'550e8400-e29b-41d4-a716-446655440000'::UUID", "NULL::UUID", "[1, NULL]", "[]", "[NULL]",
    "['\\xFF'::BLOB]", "[[1], [2, 3]]", "[DATE '2026-01-02']", "[1.5::DECIMAL(3,1)]",
    "['nan'::DOUBLE]", "array_value(1.5::FLOAT, 2)", "{'a': 1, 'b': 'x'}", "{'a': NULL}",
    "{'a': [1], 'b': {'c': TIMESTAMPTZ '2026-01-02 03:04:05.678+00'}}",
    "[{'key': 'a', 'value': '\\xFF'::BLOB}, {'key': 'a', 'value': NULL}]", "NULL::INTEGER[]",
    "NULL::STRUCT(a INTEGER)", "[NULL::STRUCT(a INTEGER)]",
]  # fmt: skip
"""What DuckDB itself can give."""
ARROW = [
    "340282366920938463463374607431768211455::UHUGEINT", "TIME '01:02:03.456'",
    "TIMETZ '01:02:03+02'", "INTERVAL '1 month 2 days'", "'101'::BIT", "1::BIGNUM", "42::VARIANT",
    "MAP{'a': 1}", "MAP{[1]: 'x'}", "[MAP{'a': 1}]", "{'m': MAP{}}", "row(1, 'x')",
    "union_value(num := 1)", "[1::HUGEINT]", "{'a': INTERVAL 1 HOUR}",
    "['550e8400-e29b-41d4-a716-446655440000'::UUID]", "'POINT(1 2)'::GEOMETRY",
]  # fmt: skip
"""What it gives otherwise than Arrow."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = Settings(data_dir=tmp_path_factory.mktemp("rows") / "data")
    write(settings, ("orders", b"a"), ("orders", b"b"), ("self", b"c"), ("duckdb", b"d"))
    return settings


@pytest.fixture
def queries(settings: Settings) -> Iterator[TopicQueries]:
    opened = TopicQueries(settings)
    yield opened
    opened.close()


def rows(queries: TopicQueries, sql: str) -> list[tuple[Any, ...]]:
    answer = queries.rows(sql)
    assert answer is not None
    return [row for some in answer for row in some]


def arrow_rows(queries: TopicQueries, sql: str) -> list[tuple[Any, ...]]:
    answer = queries.run(sql)
    assert answer is not None
    return [
        row
        for batch in answer
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def printed(found: list[tuple[Any, ...]]) -> list[list[tuple[str, str]]]:
    return [[(text(value), repr(_json_value(value))) for value in row] for row in found]


@pytest.mark.parametrize("value", NATIVE + ARROW)
def test_every_type_is_printed_the_same(queries: TopicQueries, value: str) -> None:
    sql = f"SELECT {value} AS value, 1 AS one"
    assert printed(rows(queries, sql)) == printed(arrow_rows(queries, sql))


@pytest.mark.parametrize(
    ("values", "kind"), [(NATIVE, NativeRows), (ARROW, ArrowRows)], ids=["native", "arrow"]
)
def test_arrow_is_used_where_it_must(
    queries: TopicQueries, values: list[str], kind: type[object]
) -> None:
    for value in values:
        result = start_rows(queries._connection, f"SELECT {value} AS value")
        assert isinstance(result, kind), value
        result.close()


def test_moments_of_a_time_zone(queries: TopicQueries) -> None:
    """Those of long ago had offsets with seconds, of which not everybody knows."""
    queries.rows("SET TimeZone = 'America/St_Johns'")
    sql = "SELECT TIMESTAMPTZ '1900-07-02 03:04:05+00' AS value, [timestamp] AS more FROM orders"
    assert printed(rows(queries, sql)) == printed(arrow_rows(queries, sql))


def test_dates_that_python_does_not_have(queries: TopicQueries) -> None:
    sql = "SELECT DATE '10000-01-01', TIMESTAMP '0044-03-15 (BC) 00:00:00'"
    assert rows(queries, sql) == [("10000-01-01", "0044-03-15 (BC) 00:00:00")]


def test_columns(queries: TopicQueries) -> None:
    for sql in ("SELECT 1 AS a, 'x' AS \"b c\"", 'SELECT INTERVAL 1 DAY AS a, 2 AS "b c"'):
        answer = queries.rows(sql)
        assert answer is not None
        assert list(answer.columns) == ["a", "b c"]


@pytest.mark.parametrize("more", ["", ", INTERVAL 1 DAY AS day"])
def test_rows_are_made_while_they_are_read(queries: TopicQueries, more: str) -> None:
    """There would be neither time nor memory for all of them."""
    answer = queries.rows(f"SELECT range{more} FROM range(1000000000000)")
    assert answer is not None
    parts = iter(answer)
    assert [row[0] for row in next(parts)] == list(range(ROWS_AT_ONCE))
    assert next(parts)[0][0] == ROWS_AT_ONCE
    assert rows(queries, "SELECT count(*) FROM orders") == [(2,)]
    with pytest.raises(QueryFailed):
        next(parts)


def test_scripts(queries: TopicQueries) -> None:
    assert rows(queries, "SELECT 1; SELECT 2;") == [(2,)]
    assert queries.rows("CREATE SEQUENCE numbers") is None
    assert rows(queries, "SELECT nextval('numbers'); SELECT nextval('numbers')") == [(2,)]
    assert rows(queries, "SELECT nextval('numbers')") == [(3,)]
    assert queries.rows("CREATE TABLE mine AS SELECT * FROM orders") is None
    assert queries.rows("INSERT INTO mine SELECT * FROM mine RETURNING *") is None
    assert rows(queries, "SELECT count(*) FROM mine") == [(4,)]
    assert queries.rows("SELECT 1; DROP TABLE mine") is None
    assert queries.rows("") is None


def test_a_transaction_outlives_a_name_that_is_learned(queries: TopicQueries) -> None:
    script = "BEGIN; SELECT count(*) FROM orders; COMMIT; SELECT count(*) FROM orders"
    assert rows(queries, script) == [(2,)]


def test_what_fails_is_told(queries: TopicQueries) -> None:
    late = f"SELECT CASE WHEN range = {3 * ROWS_AT_ONCE} THEN error('late') END FROM range(100000)"
    for sql, message in (
        ("SELECT * FROM order_", "there is no topic 'order_'; did you mean 'orders'?"),
        ("SELECT nope FROM orders", 'Referenced column "nope" not found'),
        ("SELECT CAST(decode(value) AS INTEGER) FROM orders", "Conversion Error"),
        (late, "late"),
    ):
        with pytest.raises(QueryFailed, match=message.replace("?", r"\?")):
            rows(queries, sql)
        assert rows(queries, "SELECT count(*) FROM orders") == [(2,)]


@pytest.mark.parametrize("name", ["self", "duckdb"])
def test_topics_that_are_called_like_something_in_this_program(
    queries: TopicQueries, name: str
) -> None:
    assert len(rows(queries, f"SELECT * FROM {name}")) == 1
    assert len(arrow_rows(queries, f"SELECT * FROM {name}")) == 1


@pytest.mark.parametrize("by", ["name", "ranges"])
def test_objects_that_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """An answer that nobody has read of begins again."""
    if by == "ranges":
        monkeypatch.setattr(engine, "_files", lambda _, *store: ServiceFiles(*store))
    settings = impatient(tmp_path / "data")
    with RewrittenTopic(settings) as topic:
        topic.append(records=3)
        topic.compact()
        topic.append(records=3)
        queries = TopicQueries(settings)
        for _ in range(3):
            answer = queries.rows('SELECT count(*), count(DISTINCT "offset") FROM orders')
            assert answer is not None
            before = topic.count
            topic.append(records=1)
            topic.compact()
            ((count, different),) = (row for some in answer for row in some)
            assert count == different
            assert before <= count <= topic.count
        queries.close()


def test_an_answer_that_was_begun_is_not_begun_again(tmp_path: Path) -> None:
    days, records = 100, 30_000
    by_day = ["partition", "day(timestamp)"]
    settings = impatient(tmp_path / "data", table_iceberg_partitioning=by_day)
    with RewrittenTopic(settings) as topic:
        topic.append(records, size_bytes=100, days=days)
        topic.compact()
        queries = TopicQueries(settings)
        # How far DuckDB is ahead of its reader must not depend on the machine.
        queries.rows("SET threads = 2; SET streaming_buffer_size = '50KB'")
        answer = queries.rows('SELECT "offset", value FROM orders')
        assert answer is not None
        parts = iter(answer)
        offsets = [row[0] for row in next(parts)]
        topic.append(records, size_bytes=100, days=days)
        topic.compact()
        with pytest.raises(QueryFailed, match=r"\.parquet was replaced while .* a part of it only"):
            offsets.extend(row[0] for some in parts for row in some)
        assert len(offsets) == len(set(offsets)) < records
        queries.close()
