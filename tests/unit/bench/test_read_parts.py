"""Values of the readers' benchmark, and what makes a measurement fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from bench.errors import MeasurementFailed
from bench.read import new_process
from bench.read.queries import BARE_QUERY, QUERIES, check_answers, filter_query
from bench.read.repeated import alternating, middle
from bench.read.rows import TABLE
from bench.read.scans import check_all, read_values
from bench.read.sinks import write_values
from bench.read.visible import TOPIC, seen_by_partition
from bench.shared.fill import Filled
from bench.shared.lag_samples import Acknowledged, Lags, Seen
from bench.shared.payload import values
from bench.shared.shapes import Shape

SHAPE = Shape(1000, "lz4")


def test_values_of_reads_are_those_of_the_median() -> None:
    told = [{"seconds": s, "cpu_seconds": 2 * s} for s in (9.0, 2.0, 1.0)]
    assert read_values(TABLE, SHAPE, Filled("t", 500_000, 500_000_000), told) == {
        "read-table-1k": 250.0,
        "read-records-table-1k": 250_000.0,
        "read-tuned-table-1k": 250.0,
        "read-cpu-table-1k": 125.0,
        "read-all-table-1k": 250.0,
    }


def test_ways_take_turns_after_one_that_does_not_count() -> None:
    called: list[str] = []

    def way(name: str) -> dict[str, int]:
        called.append(name)
        return {"number": len(called)}

    told = alternating({name: lambda name=name: way(name) for name in "ab"}, 2, 0)  # type: ignore[misc]
    assert called == ["a", "b", "b", "a", "a", "b"]
    assert [one["number"] for one in told["a"]] == [4, 5]
    assert middle(told["b"], "number") == 4.5


def test_a_source_must_give_every_record_once() -> None:
    filled = Filled("t", 6, 6_000)
    found = {"records": 6, "value_bytes": 6_000, "offsets": 0 + 1 + 0 + 1 + 0 + 0, "partitions": 4}
    check_all("towpath", found, filled)
    with pytest.raises(MeasurementFailed, match=r"towpath reads .* of t"):
        check_all("towpath", {**found, "offsets": 3}, filled)


def test_a_command_is_told_with_its_time_and_output() -> None:
    told = new_process.run([sys.executable, "-c", "print(sum(range(10**6)))"])
    assert told["text"] == "499999500000\n"
    assert told["cpu_seconds"] > 0
    assert told["seconds"] > 0
    with pytest.raises(MeasurementFailed, match="ended with 3: no luck"):
        new_process.run([sys.executable, "-c", "import sys; print('no luck', file=sys.stderr); "
                                               "sys.exit(3)"])  # fmt: skip


def test_answers_must_be_the_same_and_not_empty() -> None:
    check_answers(['[{"records": 5}]', '[\n {"records": 5}\n]'])
    with pytest.raises(MeasurementFailed, match="differ"):
        check_answers(['[{"records": 5}]', '[{"records": 4}]'])
    with pytest.raises(MeasurementFailed, match="nothing was found"):
        check_answers(['[{"records": 0}]'])


def test_queries_find_something(tmp_path: Path) -> None:
    """In the records that topics are filled with."""
    small = Shape(100, "lz4")
    records = write_values(tmp_path / "values.parquet", small)
    assert pq.read_table(tmp_path / "values.parquet")["value"].to_pylist() == list(values(100))
    rows = f"(SELECT value, row_number() OVER () // 4 AS \"offset\" FROM '{tmp_path}/*.parquet')"
    sql = filter_query(Filled("t", records, records * 100)).format(source=rows)
    (found,) = json.loads(new_process.run([sys.executable, "-c", BARE_QUERY, sql])["text"])
    assert 0 < found["records"] < records // 2
    assert records // 16 <= found["least"] < found["most"] < records * 3 // 16
    for query in QUERIES.values():
        duckdb.sql(query(Filled("t", records, 0)).format(source=rows))


def test_what_was_seen_of_each_partition() -> None:
    told = [(10, {"0": 2}), (20, {"0": 2, "1": 1}), (30, {"0": 5})]
    seen = seen_by_partition(told)
    assert seen == {(TOPIC, 0): [Seen(2, 10), Seen(5, 30)], (TOPIC, 1): [Seen(1, 20)]}
    with pytest.raises(MeasurementFailed, match="not visible"):
        Lags([Acknowledged(TOPIC, 0, 5, 1)], 0, 9).seconds(seen)
