"""`towpath sql` beside a running system: every acknowledged record, once, wherever it lies."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic
from tests.integration.harness.clients import Sent, produce_all, producer, varied_records
from tests.integration.harness.compacted import run_towpath, wait_until_compacted
from tests.integration.harness.towpath_process import TowpathProcess

from towpath.config.settings import Settings
from towpath.query.engine import TopicQueries

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone"),
]

PARTITIONS = 2
ROUNDS = 12
SHAPE = 'SELECT partition, count(*), count(DISTINCT "offset"), max("offset") FROM orders GROUP BY 1'


@pytest.fixture(scope="module")
def towpath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    """A system that compacts after a second."""
    settings = {"iceberg_enabled": "true", "compaction_wal_max_age_ms": "1000"}
    process = TowpathProcess(tmp_path_factory.mktemp("sql"), settings=settings)
    process.start()
    create_topic(process.bootstrap, "orders", partitions=PARTITIONS)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def sent(towpath: TowpathProcess) -> list[Sent]:
    """Records that were queried right after each part of them was acknowledged, while others of
    them were being compacted."""
    client = producer(towpath.bootstrap)
    queries = TopicQueries(Settings(data_dir=towpath.data_dir))
    done: list[Sent] = []
    for number in range(ROUNDS):
        part = [
            record
            for partition in range(PARTITIONS)
            for record in varied_records(30, partition=partition, tag=f"{number}")
        ]
        produce_all(client, "orders", part)
        done += part
        each = len(done) // PARTITIONS
        expected = [(partition, each, each, each - 1) for partition in range(PARTITIONS)]
        assert rows(queries, SHAPE) == expected
        if number % 4 == 1:
            wait_until_compacted(towpath.data_dir, "orders")
            assert rows(queries, SHAPE) == expected
    queries.close()
    return done


def rows(queries: TopicQueries, sql: str) -> list[tuple[Any, ...]]:
    answer = queries.run(sql)
    assert answer is not None
    return sorted(tuple(row.values()) for batch in answer for row in batch.to_pylist())


def sql(towpath: TowpathProcess, query: str, *flags: str) -> str:
    done = run_towpath("sql", query, "--data-dir", str(towpath.data_dir), *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_record_is_what_was_sent(towpath: TowpathProcess, sent: list[Sent]) -> None:
    queries = TopicQueries(Settings(data_dir=towpath.data_dir))
    for partition in range(PARTITIONS):
        of_partition = [record for record in sent if record.partition == partition]
        found = rows(
            queries,
            'SELECT "offset", key, value, headers, epoch_ms(timestamp) FROM orders '
            f"WHERE partition = {partition}",
        )
        assert [row[0] for row in found] == list(range(len(of_partition)))
        assert [
            Sent(row[2], row[1], [(one["key"], one["value"]) for one in row[3]], row[4], partition)
            for row in found
        ] == of_partition
    queries.close()


def test_the_command_answers_in_every_form(towpath: TowpathProcess, sent: list[Sent]) -> None:
    each = len(sent) // PARTITIONS
    query = "SELECT partition, count(*) AS records, min(timestamp) AS first FROM orders GROUP BY 1"
    first = "2023-11-14T22:13:20.000Z"
    expected = [
        {"partition": number, "records": each, "first": first} for number in range(PARTITIONS)
    ]
    answer = json.loads(sql(towpath, f"{query} ORDER BY 1", "--output", "json"))
    assert answer == expected
    table = sql(towpath, f"{query} ORDER BY 1").splitlines()
    assert [line.split() for line in table] == [
        ["partition", "records", "first"],
        *[[str(number), str(each), first] for number in range(PARTITIONS)],
    ]
    lines = list(csv.DictReader(io.StringIO(sql(towpath, query, "--output", "csv"))))
    assert sorted(line["partition"] for line in lines) == ["0", "1"]
    assert {line["records"] for line in lines} == {str(each)}


def test_joins_and_files_of_ones_own(
    towpath: TowpathProcess, sent: list[Sent], tmp_path: Path
) -> None:
    (tmp_path / "names.csv").write_text("number,name\n0,zero\n1,one\n")
    query = (
        f"SELECT name, count(*) AS n FROM orders JOIN '{tmp_path}/names.csv' "
        "ON number = partition GROUP BY 1 ORDER BY 1"
    )
    each = len(sent) // PARTITIONS
    answer = json.loads(sql(towpath, query, "--output", "json"))
    assert answer == [{"name": "one", "n": each}, {"name": "zero", "n": each}]
