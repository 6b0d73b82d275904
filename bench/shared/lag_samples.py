"""Joins what was acknowledged with what was seen in the tables."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.errors import MeasurementFailed

NS_PER_S = 1e9


class Acknowledged(NamedTuple):
    """A record and when the client got its answer (monotonic)."""

    topic: str
    partition: int
    offset: int
    at_ns: int


class Seen(NamedTuple):
    """A table that holds everything of a partition below `end`, and when it was loaded."""

    end: int
    at_ns: int


SeenByPartition = Mapping[tuple[str, int], Sequence[Seen]]
"""By topic and partition, in the order of their loading; ends grow."""


class Lags:
    """The records that were acknowledged in a span of time."""

    def __init__(self, acknowledged: Sequence[Acknowledged], first_ns: int, last_ns: int) -> None:
        self._records = [one for one in list(acknowledged) if first_ns <= one.at_ns < last_ns]
        self._last: dict[tuple[str, int], int] = {}
        for record in self._records:
            place = (record.topic, record.partition)
            self._last[place] = max(record.offset, self._last.get(place, 0))

    def are_seen(self, seen: SeenByPartition) -> bool:
        """Whether all of them are in their tables."""
        return all(
            place in seen and seen[place][-1].end > offset for place, offset in self._last.items()
        )

    def seconds(self, seen: SeenByPartition) -> list[float]:
        """The lag of each of them, none of which is negative. MeasurementFailed if one of them was
        not seen."""
        if not self.are_seen(seen):
            raise MeasurementFailed("records that were acknowledged are not visible")
        return [_lag_s(record, seen[record.topic, record.partition]) for record in self._records]


def _lag_s(record: Acknowledged, seen: Sequence[Seen]) -> float:
    first = seen[bisect_right(seen, record.offset, key=lambda one: one.end)]
    return max(0, first.at_ns - record.at_ns) / NS_PER_S


BIN_S = 0.25
"""Width of the histogram's bins, unless told otherwise."""


def summary(lags_s: list[float], bin_s: float = BIN_S) -> dict[str, Any]:
    """Percentiles of the lags, and how many fall into each bin. MeasurementFailed without lags."""
    if len(lags_s) < 2:
        raise MeasurementFailed("no record was acknowledged and seen")
    cuts = statistics.quantiles(lags_s, n=100, method="inclusive")
    counts = [0] * (int(max(lags_s) / bin_s) + 1)
    for lag_s in lags_s:
        counts[int(lag_s / bin_s)] += 1
    return {
        "records": len(lags_s),
        "p50_s": cuts[49],
        "p95_s": cuts[94],
        "p99_s": cuts[98],
        "max_s": max(lags_s),
        "bin_s": bin_s,
        "histogram": counts,
    }
