"""SQL over topics that no broker has open: names, moments, errors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log_helpers import batch

from towpath.config.settings import Settings
from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.sqlite.store import SqliteStore
from towpath.objects.open import open_object_store
from towpath.observe.metrics import Metrics
from towpath.query.engine import TopicQueries
from towpath.query.statement import QueryFailed
from towpath.runtime import inline_runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic

SEEDS = itertools.count()


def write(settings: Settings, *values: tuple[str, bytes], removed: int = 0) -> None:
    """Append values to topics, which are made if they are missing; then remove some of each."""

    async def work() -> None:
        runtime, metrics = inline_runtime(seed=next(SEEDS)), Metrics()
        path = settings.metadata_path()
        assert path is not None
        store = await SqliteStore.open(path, runtime)
        objects = open_object_store(settings.objects_url, runtime, metrics)
        topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: [1])
        await topics.start()
        log = ObjectLog(store, objects, runtime, ObjectLogSettings(broker_id=1), metrics)
        for name, value in values:
            topic = topics.get(name) or await topics.create(NewTopic(name, 1))
            await log.append(topic.stream(0), batch(value))
            if removed:
                await log.delete_before(topic.stream(0), removed)
        await log.close()
        await topics.close()
        await objects.close()
        await store.close()

    asyncio.run(work())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def queries(settings: Settings) -> Iterator[TopicQueries]:
    write(settings, ("orders", b"a"), ("orders", b"b"), ("sales.orders", b"c"), ("UP", b"d"))
    opened = TopicQueries(settings)
    yield opened
    opened.close()


def values(queries: TopicQueries, sql: str) -> list[Any]:
    answer = queries.run(sql)
    assert answer is not None
    return [next(iter(row.values())) for found in answer for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", ["a", "b"]),
        ("ORDERS", ["a", "b"]),
        ('"sales.orders"', ["c"]),
        ("sales.orders", ["c"]),
        ("up", ["d"]),
        ('"UP"', ["d"]),
    ],
)
def test_topics_are_found_by_name(queries: TopicQueries, name: str, expected: list[str]) -> None:
    assert values(queries, f"SELECT decode(value) FROM {name} ORDER BY 1") == expected


def test_several_topics_and_statements(queries: TopicQueries) -> None:
    union = "SELECT decode(value) FROM orders UNION ALL SELECT decode(value) FROM sales.orders"
    assert sorted(values(queries, union)) == ["a", "b", "c"]
    assert values(queries, "SELECT 1; SELECT count(*) FROM orders;") == [2]
    assert queries.run("CREATE TABLE mine AS SELECT * FROM orders") is None
    assert queries.run("DROP TABLE IF EXISTS nothing") is None
    assert queries.run("") is None
    assert values(queries, "SELECT count(*) FROM mine") == [2]
    assert queries.topics() == ["UP", "orders", "sales.orders"]


def test_each_statement_sees_what_is_there_by_then(
    settings: Settings, queries: TopicQueries
) -> None:
    assert values(queries, "SELECT count(*) FROM orders") == [2]
    write(settings, ("orders", b"c"))
    assert values(queries, "SELECT count(*) FROM orders") == [3]
    write(settings, ("orders", b"d"), removed=3)
    assert values(queries, 'SELECT "offset" FROM orders') == [3]


def test_an_empty_topic_has_columns_and_no_rows(settings: Settings) -> None:
    write(settings, ("orders", b"a"), removed=1)
    queries = TopicQueries(settings)
    assert values(queries, "SELECT count(*) FROM orders") == [0]
    queries.close()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM order_", "there is no topic 'order_'; did you mean 'orders'?"),
        ("SELECT * FROM nothing_like_it", "there is no topic 'nothing_like_it'"),
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT nope FROM orders", 'Referenced column "nope" not found'),
        ("INSERT INTO orders VALUES (1)", "orders is not an table"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(queries: TopicQueries, sql: str, message: str) -> None:
    with pytest.raises(QueryFailed) as failed:
        queries.run(sql)
    assert message in str(failed.value)
    assert "\n" not in str(failed.value)
    assert values(queries, "SELECT count(*) FROM orders") == [2]


def test_what_fails_while_it_is_read_is_told_too(queries: TopicQueries) -> None:
    with pytest.raises(QueryFailed, match="Conversion Error"):
        values(queries, "SELECT CAST(decode(value) AS INTEGER) FROM orders")


def test_stores_that_cannot_be_queried(tmp_path: Path) -> None:
    for given, message in (
        ({}, "does not exist"),
        ({"metadata_url": "memory://"}, "memory://"),
    ):
        with pytest.raises(QueryFailed, match=message):
            TopicQueries(Settings.model_validate({"data_dir": tmp_path / "none", **given}))


def test_an_object_that_stays_gone_is_told(settings: Settings, queries: TopicQueries) -> None:
    root = settings.objects_path()
    assert root is not None
    for path in root.rglob("*.wo"):
        path.unlink()
    with pytest.raises(QueryFailed, match=r"\.wo is gone, and the index still names it"):
        queries.run("SELECT * FROM orders")
