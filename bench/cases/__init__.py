"""The measurements, each of which gives the values of one or several rows."""

from __future__ import annotations

from bench.cases.case import Case
from bench.cases.catch_up import CatchUp
from bench.cases.connections import Connections
from bench.cases.latency import EndToEnd, Latency
from bench.cases.partitions import Partitions
from bench.cases.spread import Spread
from bench.cases.throughput import Throughput
from bench.cases.unbatched import Unbatched
from bench.rows import IDEMPOTENT_SHAPE, LATENCY_RATES, SHAPES, SPREADS

__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (
    Connections(),
    *(Throughput(shape) for shape in SHAPES),
    Throughput(IDEMPOTENT_SHAPE),
    Unbatched(),
    *(Latency(rate) for rate in LATENCY_RATES),
    EndToEnd(),
    # Last, because they leave a broker that has just started, and one with many partitions.
    CatchUp(),
    Partitions(),
    *(Spread(partitions) for partitions in SPREADS),
)
