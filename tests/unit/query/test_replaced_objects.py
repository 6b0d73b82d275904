"""Objects that are replaced and deleted while queries read them: every offset once, or one line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.helpers_rewritten import RewrittenTopic, impatient

from towpath.config.settings import Settings
from towpath.query import engine
from towpath.query.engine import TopicQueries
from towpath.query.service_files import ServiceFiles
from towpath.query.shown_topics import ShownTopics
from towpath.query.statement import PLANS_MAX, QueryFailed

OFFSETS = 'SELECT "offset" FROM orders'
SHAPE = 'SELECT count(*), count(DISTINCT "offset"), min("offset"), max("offset") FROM orders'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return impatient(tmp_path / "data")


@pytest.fixture
def topic(settings: Settings) -> Iterator[RewrittenTopic]:
    """A topic with a file and a tail."""
    with RewrittenTopic(settings) as made:
        made.append()
        made.compact()
        made.append()
        yield made


@pytest.fixture
def queries(settings: Settings, topic: RewrittenTopic) -> Iterator[TopicQueries]:
    opened = TopicQueries(settings)
    yield opened
    opened.close()


@pytest.fixture(params=["by name", "by ranges"])
def either_queries(
    settings: Settings,
    topic: RewrittenTopic,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TopicQueries]:
    """Queries that reach files by their names, and queries that do as they would on a service."""
    if request.param == "by ranges":
        monkeypatch.setattr(
            engine, "_files", lambda _, objects, connection: ServiceFiles(objects, connection)
        )
    opened = TopicQueries(settings)
    yield opened
    opened.close()


def rows(queries: TopicQueries, sql: str) -> list[tuple[Any, ...]]:
    answer = queries.run(sql)
    assert answer is not None
    return [tuple(row.values()) for batch in answer for row in batch.to_pylist()]


def replaced(topic: RewrittenTopic) -> None:
    """Replace every object of the topic by others, and add a record."""
    topic.append(records=1)
    topic.compact()


def parquet_files(settings: Settings) -> set[Path]:
    root = settings.objects_path()
    assert root is not None
    return {path for path in root.rglob("*.parquet") if "iceberg" not in path.parts}


def wal_objects(settings: Settings) -> set[Path]:
    root = settings.objects_path()
    assert root is not None
    return set(root.rglob("*.wo"))


def replace_after_plans(monkeypatch: pytest.MonkeyPatch, topic: RewrittenTopic, times: int) -> None:
    """Have everything replaced and deleted right after it was planned, some times."""
    left = times
    real = ShownTopics.show

    def show(shown: ShownTopics, names: list[str]) -> bool:
        nonlocal left
        found = real(shown, names)
        if left:
            left -= 1
            replaced(topic)
        return found

    monkeypatch.setattr(ShownTopics, "show", show)


def test_nothing_of_before_is_left(settings: Settings, topic: RewrittenTopic) -> None:
    """The other tests prove nothing if replaced objects stay where they are."""
    files, objects = parquet_files(settings), wal_objects(settings)
    assert files
    assert objects
    replaced(topic)
    assert parquet_files(settings)
    assert not files & parquet_files(settings)
    assert not objects & wal_objects(settings)


@pytest.mark.parametrize("times", range(PLANS_MAX))
def test_files_that_are_gone_are_planned_again(
    topic: RewrittenTopic, queries: TopicQueries, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    replace_after_plans(monkeypatch, topic, times)
    assert sorted(rows(queries, OFFSETS)) == [(offset,) for offset in range(6 + times)]


@pytest.mark.parametrize("kind", ["CREATE TABLE mine AS SELECT * FROM orders", "into"])
def test_statements_that_keep_what_they_read_do_so_once(
    topic: RewrittenTopic, queries: TopicQueries, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "into":
        queries.run("CREATE TABLE mine AS SELECT * FROM orders WHERE false")
        kind = "INSERT INTO mine SELECT * FROM orders"
    replace_after_plans(monkeypatch, topic, 1)
    assert queries.run(kind) is None
    assert rows(queries, SHAPE.replace("FROM orders", "FROM mine")) == [(7, 7, 0, 6)]


def test_plans_are_bounded(
    topic: RewrittenTopic, queries: TopicQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_after_plans(monkeypatch, topic, PLANS_MAX)
    with pytest.raises(QueryFailed, match=f"was replaced {PLANS_MAX} times"):
        queries.run(OFFSETS)
    count = topic.count
    assert rows(queries, SHAPE) == [(count, count, 0, count - 1)]


def test_an_answer_that_nobody_has_read_of_begins_again(
    topic: RewrittenTopic, queries: TopicQueries
) -> None:
    answer = queries.run(SHAPE)
    assert answer is not None
    replaced(topic)
    (batch,) = answer
    (row,) = batch.to_pylist()
    assert tuple(row.values()) in [(6, 6, 0, 5), (7, 7, 0, 6)]


def test_an_answer_that_was_begun_is_not_begun_again(tmp_path: Path) -> None:
    """Its reader would get rows twice."""
    days, records = 100, 30_000
    by_day = ["partition", "day(timestamp)"]
    settings = impatient(tmp_path / "data", table_iceberg_partitioning=by_day)
    with RewrittenTopic(settings) as topic:
        topic.append(records, size_bytes=100, days=days)
        topic.compact()
        files = parquet_files(settings)
        assert len(files) == days
        queries = TopicQueries(settings)
        # How far DuckDB is ahead of its reader must not depend on the machine.
        queries.run("SET threads = 2; SET streaming_buffer_size = '50KB'")
        answer = queries.run('SELECT "offset", value FROM orders')
        assert answer is not None
        batches = iter(answer)
        offsets = next(batches).column(0).to_pylist()
        topic.append(records, size_bytes=100, days=days)
        topic.compact()
        assert not parquet_files(settings) & files
        with pytest.raises(QueryFailed, match=r"\.parquet was replaced while .* a part of it only"):
            offsets.extend(offset for batch in batches for offset in batch.column(0).to_pylist())
        assert len(offsets) == len(set(offsets)) < records
        assert rows(queries, SHAPE) == [(topic.count, topic.count, 0, topic.count - 1)]
        queries.close()


def test_a_topic_that_is_rewritten_all_the_time(
    settings: Settings, topic: RewrittenTopic, either_queries: TopicQueries
) -> None:
    ending = threading.Event()
    rewrites = 0

    def rewrite() -> None:
        nonlocal rewrites
        while not ending.is_set():
            replaced(topic)
            topic.append()
            rewrites += 1

    writer = threading.Thread(target=rewrite, name="writer")
    writer.start()
    answers = 0
    try:
        while writer.is_alive() and (answers < 40 or rewrites < 8):
            before = topic.count
            try:
                (row,) = rows(either_queries, SHAPE)
                offsets = sorted(offset for (offset,) in rows(either_queries, OFFSETS))
            except QueryFailed as error:
                assert "run it again" in str(error)  # noqa: PT017 - others must not hide it
                continue
            assert row == (row[0], row[0], 0, row[0] - 1)
            assert before <= row[0] <= len(offsets)
            assert offsets == list(range(len(offsets)))
            answers += 1
    finally:
        ending.set()
        writer.join()
    assert rewrites >= 8


def test_a_file_that_stays_gone_is_told(
    settings: Settings, topic: RewrittenTopic, either_queries: TopicQueries
) -> None:
    for path in parquet_files(settings):
        path.unlink()
    with pytest.raises(QueryFailed, match=r"\.parquet is gone, and the index still names it"):
        either_queries.run(OFFSETS)
    assert rows(either_queries, "SELECT 1") == [(1,)]


def test_a_transaction_that_failed_can_be_rolled_back(
    settings: Settings, topic: RewrittenTopic, queries: TopicQueries
) -> None:
    queries.run("BEGIN")
    assert rows(queries, SHAPE) == [(6, 6, 0, 5)]
    with pytest.raises(QueryFailed):
        queries.run("SELECT CAST('x' AS INTEGER) FROM orders").__iter__().__next__()  # type: ignore[union-attr]
    queries.run("ROLLBACK")
    assert rows(queries, SHAPE) == [(6, 6, 0, 5)]
