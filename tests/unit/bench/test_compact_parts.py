"""Values of single parts, the records they use, and what is kept of a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.compact.compaction import compaction_values
from bench.compact.memory import given_to_each
from bench.compact.rows import ROWS
from bench.compact.scale import FULL, QUICK, Scale
from bench.errors import BenchError, MeasurementFailed
from bench.results import Measurement
from bench.shared.fill import Filled
from bench.shared.part import Context, Part
from bench.shared.payload import TEXT_BYTES, text, values
from bench.shared.results import Results
from bench.shared.rows import KAFKA_SPARK, TOWPATH
from bench.shared.shapes import Shape
from bench.shared.spark_jars import NEEDED, chosen
from bench.shared.suite import Workspace, run_parts

SHAPE = Shape(1000, "lz4")


def make_context(wanted: set[str], directory: Path = Path()) -> tuple[Context[Scale], list[str]]:
    said: list[str] = []
    results = Results(ROWS, {}, {})
    return Context(0, directory, QUICK, Path(), frozenset(wanted), results, said.append), said


def test_values_of_a_round() -> None:
    told = {"seconds": 2.0, "cpu_seconds": 4.0}
    assert compaction_values(SHAPE, Filled("t", 500_000, 500_000_000), told) == {
        "compact-1k-lz4": 250.0,
        "compact-records-1k-lz4": 250_000.0,
        "compact-cpu-1k-lz4": 125.0,
        "compact-tuned-1k-lz4": 250.0,
    }


def test_text_is_the_same_in_every_run_and_looks_like_words() -> None:
    assert len(text()) == TEXT_BYTES
    assert text().startswith(b"ogsdqqcgehml rn 22310833 ")
    assert len(values(100)) == TEXT_BYTES // 100
    assert {len(value) for value in values(1000)} == {1000}
    assert b"".join(values(1000)) == text()[: 1000 * len(values(1000))]


def test_memory_is_given_to_all_workers_together() -> None:
    assert given_to_each(200) * (os.cpu_count() or 1) <= 200
    assert FULL.memory_backlog_bytes >= 10 * FULL.memory_given_bytes


def test_only_wanted_rows_are_kept() -> None:
    context, said = make_context({"compact-1k-lz4"})
    context.keep("compact-1k-lz4", TOWPATH, Measurement(12.0))
    context.keep("compact-1k-lz4", KAFKA_SPARK, Measurement(3.0))
    context.keep("compact-1k-none", TOWPATH, Measurement(12.0))
    context.keep("compact-1k-lz4", None, Measurement(1.0))
    assert list(context.results.values) == ["compact-1k-lz4"]
    assert len(said) == 2
    assert "12.0 MB/s" in said[0]


def test_a_failure_is_kept_and_the_run_goes_on() -> None:
    context, said = make_context(set())

    def fail() -> None:
        raise MeasurementFailed("too small\nwith a log")

    with context.attempt("memory"):
        fail()
    assert context.results.failures == ["run 1, memory: too small\nwith a log"]
    assert said == ["run 1  memory failed: too small"]
    with pytest.raises(KeyboardInterrupt), context.attempt("memory"):
        raise KeyboardInterrupt


def test_only_wanted_parts_run() -> None:
    ran: list[str] = []

    class One(Part[Scale]):
        def __init__(self, row: str) -> None:
            self.rows = frozenset({row})

        def run(self, context: Context[Scale]) -> None:
            ran.extend(self.rows)

    context, _ = make_context({"lag-max"})
    run_parts([One("lag-max"), One("memory-total")], context)
    assert ran == ["lag-max"]


def test_workspace_is_removed_and_needs_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bench.shared.suite.CACHE", tmp_path)
    work = Workspace("compact", free_bytes_min=1)
    assert work.make(0).is_dir()
    assert work.make(1).is_dir()
    work.clean()
    full = Workspace("compact", free_bytes_min=1 << 60)
    with pytest.raises(BenchError, match="GB free, a run needs"):
        full.make(0)
    full.clean()
    assert list(tmp_path.iterdir()) == []


def test_jars_are_chosen_from_the_class_path() -> None:
    jars = [f"/repository/{name}1.jar" for name in NEEDED]
    assert chosen(":".join([*jars, "/repository/scala-library-2.13.jar"]) + "\n") == jars
    with pytest.raises(BenchError, match="4 of 5 jars"):
        chosen(":".join(jars[1:]))
