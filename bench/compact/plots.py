"""PNG plots of the pipeline's benchmark, when matplotlib is there."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bench.compact.results import Results
from bench.compact.rows import BY_ID, COMMITS, KAFKA_SPARK, QUARTER, SHAPES, TOWPATH, WAL, Row
from bench.ratios import median

OURS, THEIRS = "#0b6e99", "#9a9a9a"
MB = 1e6
MEMORY_PARTS = ("workers", "jvm", "driver")
MEMORY_COLOURS = ("#0b6e99", "#9a9a9a", "#5a5a5a")


def write_plots(results: Results, directory: Path) -> list[Path]:
    """Write the plots of what was measured; the files. None without matplotlib."""
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return []
    written = []
    for name, draw in (
        ("throughput", _throughput),
        ("catch-up", _catch_up),
        ("commits", _commits),
        ("lag", _lag),
        ("memory", _memory),
    ):
        figure = draw(pyplot, results)
        if figure is not None:
            path = directory / f"compact-{name}.png"
            figure.tight_layout()
            figure.savefig(path, dpi=120)
            pyplot.close(figure)
            written.append(path)
    return written


def _throughput(pyplot: Any, results: Results) -> Any:
    """Bars of wall clock and CPU time beside the other way."""
    return _bars(pyplot, results, ("compact", "compact-cpu"), KAFKA_SPARK)


def _catch_up(pyplot: Any, results: Results) -> Any:
    return _bars(pyplot, results, ("catch-up", "catch-up-cpu"), WAL)


def _bars(pyplot: Any, results: Results, prefixes: tuple[str, str], peer: str) -> Any:
    groups = [[BY_ID[f"{prefix}-{shape.id}"] for shape in SHAPES] for prefix in prefixes]
    groups = [[row for row in rows if results.of(row)] for rows in groups]
    groups = [rows for rows in groups if rows]
    if not groups:
        return None
    figure, axes = pyplot.subplots(1, len(groups), figsize=(5 * len(groups), 3.6), squeeze=False)
    for place, rows in zip(axes[0], groups, strict=True):
        _draw_bars(place, results, rows, peer)
    axes[0][0].legend(frameon=False)
    return figure


def _draw_bars(place: Any, results: Results, rows: list[Row], peer: str) -> None:
    height = 0.4
    for index, (name, colour) in enumerate(((TOWPATH, OURS), (peer, THEIRS))):
        values = [median(results.of(row, name)) or 0.0 for row in rows]
        spots = [spot + index * height for spot in range(len(rows))]
        place.barh(spots, values, height, label=name, color=colour)
    place.set_yticks([spot + height / 2 for spot in range(len(rows))])
    place.set_yticklabels(
        [row.title.split(", ", rows[0].title.count(", ") - 1)[-1] for row in rows]
    )
    place.invert_yaxis()
    place.set_xlabel(rows[0].unit)
    place.set_title(rows[0].title.rsplit(", ", 2)[0])


def _commits(pyplot: Any, results: Results) -> Any:
    """Every commit of the first run."""
    times_ms = results.raw(f"commit-{COMMITS[-1]}").get("times_ms")
    if not times_ms:
        return None
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    axes.plot(range(1, len(times_ms) + 1), times_ms, ".", markersize=2, color=THEIRS)
    points = [point for point in COMMITS if results.of(BY_ID[f"commit-{point}"])]
    medians = [median(results.of(BY_ID[f"commit-{point}"])) for point in points]
    axes.plot(points, medians, "o-", color=OURS, label="median around the point")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("commits")
    axes.set_ylabel("ms")
    axes.set_title("cost of a commit")
    axes.legend(frameon=False)
    return figure


def _lag(pyplot: Any, results: Results) -> Any:
    """The first run's histogram."""
    raw = results.raw("lag-max") or results.raw("lag-p50") or results.raw("lag-p95")
    if not raw:
        return None
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    width_s, counts = raw["bin_s"], raw["histogram"]
    axes.bar([index * width_s for index in range(len(counts))], counts, width_s, align="edge",
             color=OURS)  # fmt: skip
    axes.axvline(raw["p95_s"], color=THEIRS, linestyle="--", label=f"p95 {raw['p95_s']:.1f} s")
    axes.axvline(raw["max_s"], color="#5a5a5a", label=f"max {raw['max_s']:.1f} s")
    axes.set_xlabel("seconds from acknowledged to visible in the table")
    axes.set_ylabel("records")
    axes.set_title("lag of ten active topics")
    axes.legend(frameon=False)
    return figure


def _memory(pyplot: Any, results: Results) -> Any:
    """Peak memory of each process beside the backlogs."""
    raws = [results.raw("memory-total", name) for name in (QUARTER, TOWPATH)]
    if not all(raws):
        return None
    figure, axes = pyplot.subplots(figsize=(5, 3.6))
    labels = [f"{raw['backlog_bytes'] / MB:,.0f} MB" for raw in raws]
    bottoms = [0.0] * len(raws)
    for part, colour in zip(MEMORY_PARTS, MEMORY_COLOURS, strict=True):
        values = [raw["peak_bytes"][part] / MB for raw in raws]
        axes.bar(labels, values, 0.5, bottom=bottoms, label=part, color=colour)
        bottoms = [low + value for low, value in zip(bottoms, values, strict=True)]
    axes.set_xlabel("backlog")
    axes.set_ylabel("peak resident memory, MB")
    axes.set_title("memory of a round")
    axes.legend(frameon=False)
    return figure
