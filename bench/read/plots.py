"""Plots of the readers' benchmark."""

from __future__ import annotations

from typing import Any

from bench.read.rows import BARE_FILES, PLACES, ROWS, SHAPES, read_id
from bench.shared.plots import bars, draw_lags
from bench.shared.results import Results
from bench.shared.rows import KAFKA_SPARK

PREFIXES = ("read", "read-cpu")
VISIBLE = {"visible-sql-max": "in `sql`", "visible-spark-max": "in a Spark stream"}


def _reads(pyplot: Any, results: Results) -> Any:
    """Wall clock and CPU time beside Spark's Kafka source."""
    names = [read_id(place, shape) for shape in SHAPES for place in PLACES]
    groups = [[ROWS.by_id[f"{prefix}-{name}"] for name in names] for prefix in PREFIXES]
    return bars(pyplot, results, groups, KAFKA_SPARK)


def _sql(pyplot: Any, results: Results) -> Any:
    return bars(pyplot, results, [[ROWS.by_id["sql-cold"], ROWS.by_id["sql-filter"]]], BARE_FILES)


def _sinks(pyplot: Any, results: Results) -> Any:
    rows = [ROWS.by_id[f"sink-{shape.size_id}"] for shape in SHAPES]
    return bars(pyplot, results, [rows], KAFKA_SPARK)


def _visible(pyplot: Any, results: Results) -> Any:
    """The first run's histograms."""
    found = {title: raw for row, title in VISIBLE.items() if (raw := results.raw(row))}
    if not found:
        return None
    figure, axes = pyplot.subplots(1, len(found), figsize=(5 * len(found), 3.6), squeeze=False)
    for place, (title, raw) in zip(axes[0], found.items(), strict=True):
        draw_lags(place, raw, "p50", f"acknowledged to visible {title}")
        place.set_xlabel("seconds")
    return figure


PLOTS = {"throughput": _reads, "sql": _sql, "visible": _visible, "sink": _sinks}
