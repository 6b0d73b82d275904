"""What a benchmark leaves behind: raw numbers, a table, a summary and plots."""

from __future__ import annotations

import json
from pathlib import Path

from bench.report.plots import write_plots
from bench.report.summary import summary
from bench.report.table import page
from bench.results import Results

__all__ = ["write_report"]


def write_report(results: Results, directory: Path) -> list[Path]:
    """Write everything into a directory; the files. Plots need matplotlib and are left out
    without it."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.json": json.dumps(results.to_json(), indent=1, ensure_ascii=False) + "\n",
        "results.md": page(results),
        "summary.md": summary(results),
    }
    written = []
    for name, text in texts.items():
        (directory / name).write_text(text)
        written.append(directory / name)
    return written + write_plots(results, directory)
