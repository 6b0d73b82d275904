"""Bars and histograms that several suites draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.ratios import median
from bench.shared.results import Results
from bench.shared.rows import TOWPATH, Row

OURS, THEIRS = "#0b6e99", "#9a9a9a"


def bars(pyplot: Any, results: Results, groups: Sequence[Sequence[Row]], peer: str) -> Any:
    """A place for each group of rows that have values; None if there is none."""
    measured = [[row for row in rows if results.of(row)] for rows in groups]
    shown = [rows for rows in measured if rows]
    if not shown:
        return None
    figure, axes = pyplot.subplots(1, len(shown), figsize=(5 * len(shown), 3.6), squeeze=False)
    for place, rows in zip(axes[0], shown, strict=True):
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


def draw_lags(axes: Any, raw: dict[str, Any], name: str, title: str) -> None:
    """The histogram of a summary of lags, with one percentile and the greatest."""
    width_s, counts = raw["bin_s"], raw["histogram"]
    axes.bar([index * width_s for index in range(len(counts))], counts, width_s, align="edge",
             color=OURS)  # fmt: skip
    at_s, most_s = raw[f"{name}_s"], raw["max_s"]
    axes.axvline(at_s, color=THEIRS, linestyle="--", label=f"{name} {at_s:.2g} s")
    axes.axvline(most_s, color="#5a5a5a", label=f"max {most_s:.2g} s")
    axes.set_ylabel("records")
    axes.set_title(title)
    axes.legend(frameon=False)
