"""Ratios of two systems, taken within each run, and the median over the runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """The median of the runs' ratios, and the least and greatest of them."""

    median: float
    low: float
    high: float


def ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio | None:
    """Values by run number. Only runs in which both were measured count; None if there is none."""
    found = [ours[run] / theirs[run] for run in ours if theirs.get(run)]
    if not found:
        return None
    return Ratio(statistics.median(found), min(found), max(found))


def median(values: Mapping[int, float]) -> float | None:
    """The median over the runs."""
    return statistics.median(values.values()) if values else None


def spread(values: Mapping[int, float]) -> float | None:
    """How far the runs lie apart: greatest less least, as a part of the median."""
    middle = median(values)
    if not middle:
        return None
    return (max(values.values()) - min(values.values())) / middle
