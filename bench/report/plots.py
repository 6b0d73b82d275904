"""PNG plots, when matplotlib is there."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bench.ratios import median
from bench.report.table import measured_rows
from bench.results import Results
from bench.rows import BY_ID, Row
from bench.systems import NAMES, TOWPATH

COLOURS = {"towpath": "#0b6e99", "kafka": "#9a9a9a", "kafka-flush": "#5a5a5a"}
LATENCY_ROWS = ("latency-100-p50", "latency-1000-p50", "end-to-end-p50")
"""Rows whose raw values hold the whole curve."""


def write_plots(results: Results, directory: Path) -> list[Path]:
    """Write the plots; the files. None without matplotlib."""
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return []
    rows = measured_rows(results)
    written = []
    for prefix in ("produce", "fetch"):
        shown = [row for row in rows if row.id.startswith(prefix + "-")]
        if shown:
            written.append(_bars(pyplot, results, shown, directory / f"{prefix}.png"))
    curves = [BY_ID[name] for name in LATENCY_ROWS if results.of(BY_ID[name], TOWPATH)]
    if curves:
        written.append(_curves(pyplot, results, curves, directory / "latency.png"))
    return written


def _bars(pyplot: Any, results: Results, rows: list[Row], path: Path) -> Path:
    """Medians of each row side by side."""
    figure, axes = pyplot.subplots(figsize=(9, 0.6 * len(rows) + 1.6))
    height = 0.8 / len(NAMES)
    for index, name in enumerate(NAMES):
        values = [median(results.of(row, name)) or 0.0 for row in rows]
        places = [place + index * height for place in range(len(rows))]
        axes.barh(places, values, height, label=name, color=COLOURS[name])
    axes.set_yticks([place + height for place in range(len(rows))])
    axes.set_yticklabels([row.title.partition(", ")[2] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(rows[0].unit)
    axes.set_title(rows[0].title.partition(",")[0])
    axes.legend(frameon=False)
    return _save(pyplot, figure, path)


def _curves(pyplot: Any, results: Results, rows: list[Row], path: Path) -> Path:
    """The first run's percentiles 1 to 99 of each system."""
    figure, axes = pyplot.subplots(1, len(rows), figsize=(4.5 * len(rows), 3.6), squeeze=False)
    for place, row in zip(axes[0], rows, strict=True):
        for name, by_run in results.values[row.id].items():
            curve_us = by_run[min(by_run)].raw["curve_us"]
            curve_ms = [value / 1000 for value in curve_us]
            place.plot(range(1, len(curve_ms) + 1), curve_ms, label=name, color=COLOURS[name])
        place.set_yscale("log")
        place.set_xlabel("percentile")
        place.set_ylabel("ms")
        place.set_title(row.title.replace(" p50", ""))
    axes[0][0].legend(frameon=False)
    return _save(pyplot, figure, path)


def _save(pyplot: Any, figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
