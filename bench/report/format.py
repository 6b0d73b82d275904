"""Numbers and tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bench.ratios import Ratio

NONE = "–"


def number(value: float | None) -> str:
    """Three significant digits, thousands set apart."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def times(ratio: Ratio | None, *, with_range: bool = False) -> str:
    """A ratio as `1.23x`, with the least and the greatest of the runs where asked for."""
    if ratio is None:
        return NONE
    text = f"{number(ratio.median)}x"
    if with_range and ratio.low != ratio.high:
        text += f" ({number(ratio.low)}–{number(ratio.high)})"
    return text


def percent(share: float | None) -> str:
    """A share as a whole percentage."""
    return NONE if share is None else f"{share:.0%}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "|".join(["---", *["--:"] * (len(head) - 1)]) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
