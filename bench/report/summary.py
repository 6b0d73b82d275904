"""`summary.md`: the block that the README shows."""

from __future__ import annotations

from bench.ratios import median
from bench.report.format import number, table, times
from bench.report.table import environment_line, measured_rows, verdicts
from bench.results import Results
from bench.systems import KAFKA, KAFKA_FLUSH, NAMES

SUMMARY_ROWS = (
    "produce-1k-16k-none",
    "produce-1k-1m-none",
    "produce-1k-1m-lz4",
    "fetch-1k-1m-none",
    "fetch-100b-16k-none",
    "catch-up",
    "unbatched",
    "latency-1000-p50",
    "latency-1000-p99",
    "end-to-end-p50",
    "partitions-2000",
    "cpu-produce-1k-1m-none",
    "memory-load",
    "startup",
)


def summary(results: Results) -> str:
    """The main rows, and how many goals were reached."""
    lines = [
        [
            row.title,
            row.unit,
            *(number(median(results.of(row, name))) for name in NAMES),
            times(results.ratios(row).get(KAFKA)),
            times(results.ratios(row).get(KAFKA_FLUSH)),
        ]
        for row in measured_rows(results)
        if row.id in SUMMARY_ROWS
    ]
    met, judged = count_goals(results)
    return "\n".join(
        [
            environment_line(results),
            table(["", "unit", *NAMES, "to kafka", "to kafka-flush"], lines),
            f"{met} of {judged} goals reached; all rows, limits and goals are in "
            "[bench/results/results.md](bench/results/results.md). `kafka` acknowledges before "
            "its data is on the disk; `kafka-flush` and `towpath` after.\n",
        ]
    )


def count_goals(results: Results) -> tuple[int, int]:
    """Goals reached, and goals that could be judged."""
    found = [
        verdict
        for row in measured_rows(results)
        for _, verdict in verdicts(results, row)
        if verdict is not None
    ]
    return sum(verdict.met for verdict in found), len(found)
