"""`towpath bench read`: topics in Spark and in SQL."""

from __future__ import annotations

from bench.read.method import METHOD
from bench.read.plots import PLOTS
from bench.read.queries import Queries
from bench.read.rows import ROWS
from bench.read.scale import FULL, QUICK
from bench.read.scans import Scans
from bench.read.sinks import Sinks
from bench.read.visible import Visible
from bench.shared.report import Report
from bench.shared.suite import Suite

SUITE = Suite(
    rows=ROWS,
    parts=(Scans(), Queries(), Visible(), Sinks()),
    full=FULL,
    quick=QUICK,
    report=Report("Benchmark of the readers", METHOD, PLOTS),
)
