"""Every row of the readers' result: its unit, what it is held against, and its goals."""

from __future__ import annotations

from bench.goals import Goal
from bench.shared.bounds import Bound
from bench.shared.rows import KAFKA_SPARK, MAX_AGE, TUNED_SPARK, Row, Rows
from bench.shared.shapes import Shape

BARE_FILES = "duckdb on the bare files"
"""A new Python process that asks DuckDB the same over the Parquet files, which it is told."""

SHAPES = (Shape(100, "lz4"), Shape(1000, "lz4"))
TABLE, TAIL, BOTH = "table", "tail", "both"
PLACES = (TABLE, TAIL, BOTH)
"""Where a topic's records lie when they are read: compacted, not yet, or half and half."""

READ_ALL = "read-all"
"""Rows of reads with more columns than the other side has."""
READ_GOAL = Goal(KAFKA_SPARK, 3.0)
SQL_GOAL = Goal(BARE_FILES, 2.0)
VISIBLE_BOUND = Bound(1.0, "s")


def read_id(place: str, shape: Shape) -> str:
    """The part of a row's id that names what is read."""
    return f"{place}-{shape.size_id}"


def _read_rows(place: str, shape: Shape) -> tuple[Row, ...]:
    name, title = read_id(place, shape), f"{place}, {shape.size_title}"
    return (
        Row(f"read-{name}", f"Spark read, {title}", "MB/s", True, KAFKA_SPARK, (READ_GOAL,)),
        Row(f"read-records-{name}", f"Spark read, {title}", "records/s", True, KAFKA_SPARK),
        Row(f"read-tuned-{name}", f"Spark read, {title}", "MB/s", True, TUNED_SPARK),
        Row(f"read-cpu-{name}", f"CPU of Spark read, {title}", "MB/CPU-s", True, KAFKA_SPARK),
        Row(f"{READ_ALL}-{name}", f"Spark read of all ten columns, {title}", "MB/s", True,
            KAFKA_SPARK),
    )  # fmt: skip


def _sink_row(shape: Shape) -> Row:
    title = f"Spark write, {shape.size_title}"
    return Row(f"sink-{shape.size_id}", title, "MB/s", True, KAFKA_SPARK)


ROWS = Rows(
    "read",
    (
        *(row for shape in SHAPES for place in PLACES for row in _read_rows(place, shape)),
        Row("sql-cold", "`sql` in a new process, count of a million records", "s", False,
            BARE_FILES, (Bound(1.0, "s"), SQL_GOAL)),
        Row("sql-filter", "`sql` in a new process, filter over ten million records", "s", False,
            BARE_FILES, (SQL_GOAL,)),
        Row("visible-sql-p50", "acknowledged to visible in `sql`, p50", "s", False, MAX_AGE),
        Row("visible-sql-max", "acknowledged to visible in `sql`, max", "s", False, MAX_AGE,
            (VISIBLE_BOUND,)),
        Row("visible-spark-p50", "acknowledged to visible in a Spark stream, p50", "s", False,
            KAFKA_SPARK),
        Row("visible-spark-p99", "acknowledged to visible in a Spark stream, p99", "s", False,
            KAFKA_SPARK),
        Row("visible-spark-max", "acknowledged to visible in a Spark stream, max", "s", False,
            KAFKA_SPARK, (VISIBLE_BOUND,)),
        *(_sink_row(shape) for shape in SHAPES),
    ),
)  # fmt: skip
