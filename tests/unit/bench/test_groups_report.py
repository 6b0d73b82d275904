"""The table, the page and the plots of the groups' report."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.groups.rows import ROWS
from bench.groups.suite import SUITE
from bench.results import Measurement
from bench.shared.report import page, results_table, write_report
from bench.shared.results import Results
from bench.shared.rows import TOWPATH
from bench.systems import KAFKA

ENVIRONMENT: dict[str, object] = dict.fromkeys(
    ("date", "commit", "cores", "cpu", "memory_gib", "kernel", "file_system", "python", "kafka",
     "java", "librdkafka", "load"), "x",
)  # fmt: skip


@pytest.fixture
def results() -> Results:
    """One run of every row, the double of Kafka's."""
    made = Results(ROWS, ENVIRONMENT, {"runs": 1, "quick": True})
    for row in ROWS.all:
        made.add(row.id, TOWPATH, 0, Measurement(6.5))
        made.add(row.id, KAFKA, 0, Measurement(3.25))
    return made


def test_table_has_values_ratios_and_verdicts(results: Results) -> None:
    lines = {line.split("|")[1].strip(): line for line in results_table(results).splitlines()[2:]}
    assert lines["first assignment, classic protocol"].endswith("2.00x | ≤ 1x kafka | not met |")
    assert lines["reassigned after a death, classic protocol"].endswith("| ≤ 6.5 s | met |")
    assert lines["commits, one classic group of 64 members"].endswith("≥ 1x kafka | met |")
    assert lines["heartbeats of 64 members, classic protocol"].endswith("| 2.00x | – | – |")


def test_page_says_how_it_was_measured_and_with_what(results: Results) -> None:
    text = page(SUITE.report, results)
    assert text.startswith("# Benchmark of consumer groups\n")
    assert "members with librdkafka x; load" in text
    assert "A quick run is too short" in text


def test_plots(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [path.name for path in write_report(SUITE.report, results, tmp_path)]
    assert names == [
        "groups.json", "groups.md", "groups-changes.png", "groups-commits.png",
        "groups-heartbeats.png",
    ]  # fmt: skip
