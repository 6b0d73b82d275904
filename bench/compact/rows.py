"""Every row of the pipeline's result: its unit, what it is held against, and its goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from bench.compact.bounds import Bound
from bench.errors import BenchError
from bench.goals import Goal

TOWPATH = "towpath"
KAFKA_SPARK = "kafka + spark"
"""What a user would run otherwise: Spark's Kafka source and Iceberg's writer, as they come."""
TUNED_SPARK = "kafka + spark, tuned"
"""The same with the fastest settings that were found."""
WAL = "the same from WAL"
TENTH = "10th commit"
MAX_AGE = "compaction.wal.max.age"
BROKER = "broker"
QUARTER = "a quarter of it"

MEMORY_RATIO_MAX = 1.25
"""Beyond it memory counts as growing with the backlog; repetitions differ by less."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    id: str
    title: str
    unit: str
    higher_is_better: bool
    peer: str | None = None
    """What else was measured in the same run, to which the row is a ratio."""

    goals: tuple[Goal | Bound, ...] = ()


@dataclass(frozen=True)
class Shape:
    """Records of a topic that is compacted."""

    record_bytes: int
    compression: str

    @property
    def id(self) -> str:
        """The part of a row's id that names the shape."""
        return f"{'100b' if self.record_bytes == 100 else '1k'}-{self.compression}"

    @property
    def title(self) -> str:
        """For people."""
        return f"{'100 B' if self.record_bytes == 100 else '1 KB'} records, {self.compression}"

    @property
    def mb_per_cpu_second_min(self) -> float:
        """The goal of its CPU time."""
        return 70.0 if self.record_bytes == 100 else 100.0


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
    cpu_goal = Bound(shape.mb_per_cpu_second_min, per_cpu)
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


ROWS: tuple[Row, ...] = (
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

BY_ID = {row.id: row for row in ROWS}


QUICK_ROWS = frozenset(BY_ID) - {"memory-given"}
"""Without what only a large backlog can show."""


def wanted_rows(patterns: Sequence[str], *, quick: bool = False) -> set[str]:
    """The ids that match any of the patterns, or begin with it; without one all, or those of a
    quick run. BenchError for a pattern that matches nothing."""
    if not patterns:
        return set(QUICK_ROWS if quick else BY_ID)
    found = set()
    for pattern in patterns:
        matches = {row for row in BY_ID if fnmatch(row, pattern) or row.startswith(pattern + "-")}
        if not matches:
            raise BenchError(f"no row of compact is called {pattern!r}; --list shows them")
        found |= matches
    return found
