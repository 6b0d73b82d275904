"""The table, the page and the plots of the readers' report."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.read.rows import ROWS
from bench.read.suite import SUITE
from bench.results import Measurement
from bench.shared.report import page, results_table, write_report
from bench.shared.results import Results
from bench.shared.rows import TOWPATH
from tests.unit.bench.test_compact_report import ENVIRONMENT

LAGS = {"bin_s": 0.05, "histogram": [1, 5, 2], "p50_s": 0.07, "max_s": 0.14}


@pytest.fixture
def results() -> Results:
    """One run of every row, three times the value of its peer."""
    made = Results(ROWS, ENVIRONMENT, {"runs": 1, "quick": True})
    for row in ROWS.all:
        assert row.peer is not None
        raw = LAGS if row.id.startswith("visible-") else {}
        made.add(row.id, TOWPATH, 0, Measurement(0.75, raw=raw))
        made.add(row.id, row.peer, 0, Measurement(0.25, raw=raw))
    return made


def test_table_has_values_ratios_and_verdicts(results: Results) -> None:
    lines = {line.split("|")[1].strip(): line for line in results_table(results).splitlines()[2:]}
    assert "3.00x | ≥ 3x kafka + spark | met" in results_table(results)
    assert (
        "≤ 1 s<br>≤ 2x duckdb on the bare files | met<br>not met"
        in lines["`sql` in a new process, count of a million records"]
    )
    assert lines["Spark write, 1 KB records"].endswith("| 3.00x | – | – |")


def test_page_says_how_it_was_measured(results: Results) -> None:
    text = page(SUITE.report, results)
    assert text.startswith("# Benchmark of the readers\n")
    assert "A quick run is too short" in text
    assert "acknowledged to visible in a Spark stream, max" in text


def test_plots(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [path.name for path in write_report(SUITE.report, results, tmp_path)]
    assert names == [
        "read.json", "read.md", "read-throughput.png", "read-sql.png", "read-visible.png",
        "read-sink.png",
    ]  # fmt: skip
