"""The table, the summary and the files of a report."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from bench.ratios import Ratio
from bench.report import write_report
from bench.report.format import number, times
from bench.report.summary import count_goals
from bench.report.table import page, results_table
from bench.results import Measurement, Results
from bench.rows import BY_ID

ENVIRONMENT: dict[str, object] = dict.fromkeys(
    ("date", "commit", "cores", "cpu", "memory_gib", "kernel", "file_system", "python", "kafka",
     "kafka_heap", "java", "librdkafka"), "x",
)  # fmt: skip


@pytest.fixture
def results() -> Results:
    """Two runs: one throughput row, one latency row, one that keeps the greatest."""
    made = Results(ENVIRONMENT, {"runs": 2, "quick": False})
    produce, latency = BY_ID["produce-1k-16k-lz4"], BY_ID["latency-1000-p50"]
    curve = {"curve_us": [float(percent) for percent in range(1, 100)]}
    for run in (0, 1):
        made.add_limits(run, {"synced_write_mb_s": 200.0, "three_syncs_us": 1000.0})
        made.add(produce, "towpath", run, Measurement(300.0, bounded_value=150.0))
        made.add(produce, "kafka", run, Measurement(100.0))
        made.add(produce, "kafka-flush", run, Measurement(100.0))
        made.add(latency, "towpath", run, Measurement(1600.0, raw=curve))
        made.add(latency, "kafka", run, Measurement(400.0, raw=curve))
    return made


def test_compressed_rows_are_held_against_bytes_on_the_wire(results: Results) -> None:
    ratios = results.ratios(BY_ID["produce-1k-16k-lz4"])
    assert ratios["limit"].median == 0.75
    assert ratios["kafka"].median == 3.0


def test_the_greatest_of_a_run_is_kept_where_the_row_says_so(results: Results) -> None:
    memory, start = BY_ID["memory-load"], BY_ID["startup"]
    for value in (100.0, 300.0, 200.0):
        results.add(memory, "towpath", 0, Measurement(value))
        results.add(start, "towpath", 0, Measurement(value))
    assert results.of(memory, "towpath") == {0: 300.0}
    assert results.of(start, "towpath") == {0: 200.0}


def test_table_has_values_ratios_and_verdicts(results: Results) -> None:
    lines = results_table(results).splitlines()
    assert len(lines) == 4
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[1:8] == ["MB/s", "300", "100", "100", "3.00x", "3.00x", "0.75x"]
    assert cells[9] == "met<br>met<br>not met"
    assert lines[3].endswith("| ≤ 1.5x limit | not met |")
    assert count_goals(results) == (2, 4)


def test_page_tells_failures_in_one_line_each(results: Results) -> None:
    results.failures.append("run 1, unbatched, kafka: gone\nand a long log")
    text = page(results)
    assert "- run 1, unbatched, kafka: gone\n" in text
    assert "a long log" not in text
    assert "medians of 2 runs" in text


def test_report_files_without_matplotlib(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    written = write_report(results, tmp_path / "out")
    assert [path.name for path in written] == ["results.json", "results.md", "summary.md"]
    told = json.loads((tmp_path / "out" / "results.json").read_text())
    assert told["rows"]["produce-1k-16k-lz4"]["towpath"]["0"]["bounded_value"] == 150.0
    assert told["limits"]["three_syncs_us"] == {"0": 1000.0, "1": 1000.0}


def test_plots(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_report(results, tmp_path)
    plots = [path for path in written if path.suffix == ".png"]
    assert [path.name for path in plots] == ["produce.png", "latency.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots)


def test_numbers() -> None:
    assert [number(value) for value in (None, 0.1234, 12.34, 1234.5)] == [
        "–", "0.12", "12.3", "1,234",
    ]  # fmt: skip
    assert times(None) == "–"
    assert times(Ratio(2.0, 1.0, 3.0), with_range=True) == "2.00x (1.00–3.00)"
    assert times(Ratio(2.0, 2.0, 2.0), with_range=True) == "2.00x"
