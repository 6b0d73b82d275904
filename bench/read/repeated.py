"""Several repetitions within a run, of which the median counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.plan import rotated


def alternating(
    ways: Mapping[str, Callable[[], dict[str, Any]]], repetitions: int, turn: int
) -> dict[str, list[dict[str, Any]]]:
    """What each way told of each repetition. They take turns, and who begins changes; before the
    first repetition that counts each has one that does not."""
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for number in range(-1, repetitions):
        for name in rotated(list(ways), turn + number + 1):
            found = ways[name]()
            if number >= 0:
                told[name].append(found)
    return told


def middle(told: Sequence[Mapping[str, Any]], name: str) -> float:
    """The median of a value over the repetitions."""
    return statistics.median([float(one[name]) for one in told])
