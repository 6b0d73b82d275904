"""`towpath bench groups`: consumer groups beside those of Apache Kafka."""

from __future__ import annotations

from bench.groups.changes import Changes
from bench.groups.environment import VERSIONS, describe
from bench.groups.loads import Loads
from bench.groups.method import METHOD
from bench.groups.plots import PLOTS
from bench.groups.rows import ROWS
from bench.groups.scale import FULL, QUICK
from bench.shared.report import Report
from bench.shared.suite import Suite

SUITE = Suite(
    rows=ROWS,
    parts=(Changes(), Loads()),
    full=FULL,
    quick=QUICK,
    report=Report("Benchmark of consumer groups", METHOD, PLOTS, VERSIONS),
    environment=describe,
)
