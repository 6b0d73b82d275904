"""Every row of the pipeline's result: its unit, what it is held against, and its goals."""

from __future__ import annotations

from bench.goals import Goal
from bench.shared.bounds import Bound
from bench.shared.rows import KAFKA_SPARK, MAX_AGE, TUNED_SPARK, Row, Rows
from bench.shared.shapes import Shape

WAL = "the same from WAL"
TENTH = "10th commit"
BROKER = "broker"
QUARTER = "a quarter of it"

MEMORY_RATIO_MAX = 1.25
"""Beyond it memory counts as growing with the backlog; repetitions differ by less."""

MB_PER_CPU_SECOND_MIN = {100: 70.0, 1000: 100.0}
"""The goal of the CPU time, by the size of the records."""

SHAPES = tuple(
    Shape(record_bytes, compression)
    for record_bytes in (100, 1000)
    for compression in ("none", "lz4")
)
COMMITS = (1, 10, 100, 1000)
"""Which commits of a table are measured."""

SPEED_GOAL = Goal(KAFKA_SPARK, 4.0)


def _shape_rows(shape: Shape) -> tuple[Row, ...]:
    per_cpu = "MB/CPU-s"
    cpu_goal = Bound(MB_PER_CPU_SECOND_MIN[shape.record_bytes], per_cpu)
    return (
        Row(f"compact-{shape.id}", f"compaction, {shape.title}", "MB/s", True, KAFKA_SPARK,
            (SPEED_GOAL,)),
        Row(f"compact-records-{shape.id}", f"compaction, {shape.title}", "records/s", True,
            KAFKA_SPARK),
        Row(f"compact-tuned-{shape.id}", f"compaction, {shape.title}", "MB/s", True, TUNED_SPARK),
        Row(f"compact-cpu-{shape.id}", f"CPU of compaction, {shape.title}", per_cpu, True,
            KAFKA_SPARK, (cpu_goal,)),
    )  # fmt: skip


def _catch_up_rows(shape: Shape) -> tuple[Row, ...]:
    return (
        Row(f"catch-up-{shape.id}", f"fetch from Parquet, {shape.title}", "MB/s", True, WAL),
        Row(f"catch-up-cpu-{shape.id}", f"broker CPU, fetch from Parquet, {shape.title}", "s/GB",
            False, WAL),
    )  # fmt: skip


def _commit_rows(number: int) -> tuple[Row, ...]:
    peer = None if number == 10 else TENTH
    goals = (Goal(TENTH, 2.0),) if number == COMMITS[-1] else ()
    title = f"after {number:,} commits" if number > 1 else "after 1 commit"
    return (
        Row(f"commit-{number}", f"commit to a table {title}", "ms", False, peer, goals),
        Row(f"commit-size-{number}", f"table metadata {title}", "KB", False, peer),
        Row(f"commit-files-{number}", f"metadata files {title}", "files", False, peer),
    )


def _memory_row(part: str, title: str, *, is_goal: bool) -> Row:
    goals = (Goal(QUARTER, MEMORY_RATIO_MAX),) if is_goal else ()
    return Row(f"memory-{part}", f"peak memory of a large backlog, {title}", "MB", False, QUARTER,
               goals)  # fmt: skip


_ALL: tuple[Row, ...] = (
    *(row for shape in SHAPES for row in _shape_rows(shape)),
    *(row for shape in SHAPES for row in _catch_up_rows(shape)),
    *(row for number in COMMITS for row in _commit_rows(number)),
    Row("lag-p50", "acknowledged to visible in the table, p50", "s", False, MAX_AGE),
    Row("lag-p95", "acknowledged to visible in the table, p95", "s", False, MAX_AGE),
    Row("lag-max", "acknowledged to visible in the table, max", "s", False, MAX_AGE,
        (Bound(10.0, "s"),)),
    Row("lag-cpu", "CPU of compactor and Spark meanwhile", "cores", False, BROKER),
    _memory_row("workers", "Python workers", is_goal=True),
    _memory_row("jvm", "JVM", is_goal=False),
    _memory_row("driver", "driver", is_goal=False),
    _memory_row("total", "all processes", is_goal=True),
    Row("memory-given", "backlog done with limited workers, per byte they were given", "x", True,
        None, (Bound(10.0, "x"),)),
)  # fmt: skip

ROWS = Rows("compact", _ALL, not_quick=frozenset({"memory-given"}))
"""A quick run is without what only a large backlog can show."""
