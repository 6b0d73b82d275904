"""Plots of the pipeline's benchmark."""

from __future__ import annotations

from typing import Any

from bench.compact.rows import COMMITS, QUARTER, ROWS, SHAPES, WAL
from bench.ratios import median
from bench.shared.plots import OURS, THEIRS, bars, draw_lags
from bench.shared.results import Results
from bench.shared.rows import KAFKA_SPARK, TOWPATH

MB = 1e6
MEMORY_PARTS = ("workers", "jvm", "driver")
MEMORY_COLOURS = ("#0b6e99", "#9a9a9a", "#5a5a5a")


def _throughput(pyplot: Any, results: Results) -> Any:
    """Bars of wall clock and CPU time beside the other way."""
    return _bars(pyplot, results, ("compact", "compact-cpu"), KAFKA_SPARK)


def _catch_up(pyplot: Any, results: Results) -> Any:
    return _bars(pyplot, results, ("catch-up", "catch-up-cpu"), WAL)


def _bars(pyplot: Any, results: Results, prefixes: tuple[str, str], peer: str) -> Any:
    groups = [[ROWS.by_id[f"{prefix}-{shape.id}"] for shape in SHAPES] for prefix in prefixes]
    return bars(pyplot, results, groups, peer)


def _commits(pyplot: Any, results: Results) -> Any:
    """Every commit of the first run."""
    times_ms = results.raw(f"commit-{COMMITS[-1]}").get("times_ms")
    if not times_ms:
        return None
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    axes.plot(range(1, len(times_ms) + 1), times_ms, ".", markersize=2, color=THEIRS)
    points = [point for point in COMMITS if results.of(ROWS.by_id[f"commit-{point}"])]
    medians = [median(results.of(ROWS.by_id[f"commit-{point}"])) for point in points]
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
    draw_lags(axes, raw, "p95", "lag of ten active topics")
    axes.set_xlabel("seconds from acknowledged to visible in the table")
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


PLOTS = {
    "throughput": _throughput,
    "catch-up": _catch_up,
    "commits": _commits,
    "lag": _lag,
    "memory": _memory,
}
