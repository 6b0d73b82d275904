"""`towpath bench compact`: topics into tables."""

from __future__ import annotations

from bench.compact.commits import Commits
from bench.compact.compaction import Compaction
from bench.compact.lag import Lag
from bench.compact.memory import Memory
from bench.compact.method import METHOD
from bench.compact.plots import PLOTS
from bench.compact.rows import ROWS
from bench.compact.scale import FULL, QUICK
from bench.shared.report import Report
from bench.shared.suite import Suite

SUITE = Suite(
    rows=ROWS,
    parts=(Compaction(), Commits(), Lag(), Memory()),
    full=FULL,
    quick=QUICK,
    report=Report("Benchmark of the data pipeline", METHOD, PLOTS),
)
