"""The table, the page and the files of the pipeline's report."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from bench.compact.rows import ROWS
from bench.compact.suite import SUITE
from bench.results import Measurement
from bench.shared.report import page, results_table, write_report
from bench.shared.results import Results
from bench.shared.rows import TOWPATH

ENVIRONMENT: dict[str, object] = dict.fromkeys(
    ("date", "commit", "cores", "cpu", "memory_gib", "kernel", "file_system", "python", "pyspark",
     "pyiceberg", "duckdb", "spark_java", "kafka", "iceberg", "load"), "x",
)  # fmt: skip


def peaks(total: int) -> dict[str, Any]:
    """What a memory round tells."""
    parts = {"workers": total // 2, "jvm": total // 4, "driver": total // 4, "total": total}
    return {"backlog_bytes": total, "peak_bytes": parts}


RAW: dict[str, dict[str, Any]] = {
    "commit-1000": {"times_ms": [10.0, 12.0, 11.0]},
    "lag-max": {"bin_s": 0.25, "histogram": [1, 5, 2], "p95_s": 0.5, "max_s": 0.7},
    "memory-total": peaks(1_000_000),
}


@pytest.fixture
def results() -> Results:
    """Two runs of a row of each part, and their peers."""
    made = Results(ROWS, ENVIRONMENT, {"runs": 2, "quick": False})
    for row_id in ("compact-1k-none", "compact-cpu-1k-none", "catch-up-100b-lz4", "commit-1000",
                   "lag-max", "memory-total"):  # fmt: skip
        row = ROWS.by_id[row_id]
        assert row.peer is not None
        for run in (0, 1):
            made.add(row_id, TOWPATH, run, Measurement(120.0, raw=RAW.get(row_id, {})))
            made.add(row_id, row.peer, run, Measurement(20.0, raw=RAW.get(row_id, {})))
    return made


def test_table_has_values_ratios_and_verdicts(results: Results) -> None:
    lines = results_table(results).splitlines()
    assert len(lines) == 8
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == [
        "compaction, 1 KB records, none", "MB/s", "120", "kafka + spark", "20.0", "6.00x",
        "≥ 4x kafka + spark", "met",
    ]  # fmt: skip
    assert "≥ 100 MB/CPU-s | met" in lines[3]
    assert lines[4].endswith("| – | – |")
    assert "≤ 2x 10th commit | not met" in lines[5]


def test_page_tells_failures_in_one_line_each(results: Results) -> None:
    results.failures.append("run 1, lag: gone\nand a long log")
    text = page(SUITE.report, results)
    assert "- run 1, lag: gone\n" in text
    assert "a long log" not in text
    assert "medians of 2 runs" in text
    assert "2 of 5 goals reached" in text
    assert "Spread between runs" in text


def test_files_without_matplotlib(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    written = write_report(SUITE.report, results, tmp_path / "out")
    assert [path.name for path in written] == ["compact.json", "compact.md"]
    told = json.loads((tmp_path / "out" / "compact.json").read_text())
    assert told["rows"]["compact-1k-none"]["kafka + spark"]["1"]["value"] == 20.0


def test_plots(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = [
        path for path in write_report(SUITE.report, results, tmp_path) if path.suffix == ".png"
    ]
    assert [path.name for path in plots] == [
        "compact-throughput.png", "compact-catch-up.png", "compact-commits.png",
        "compact-lag.png", "compact-memory.png",
    ]  # fmt: skip
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots)


def test_nothing_measured_makes_no_plot(tmp_path: Path) -> None:
    written = write_report(SUITE.report, Results(ROWS, ENVIRONMENT, {}), tmp_path)
    assert [path.suffix for path in written] == [".json", ".md"]
