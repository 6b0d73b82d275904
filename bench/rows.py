"""Every row of the result: what it is called, its unit, what bounds it, and its goals."""

from __future__ import annotations

from dataclasses import dataclass

from bench.goals import Goal
from bench.systems import KAFKA, KAFKA_FLUSH

LIMIT = "limit"
"""What a goal names when it is held against the row's limit and not against a system."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    id: str
    title: str
    unit: str
    higher_is_better: bool
    limit: str | None = None
    """The name of the machine's limit that bounds it, in the row's unit."""

    goals: tuple[Goal, ...] = ()
    keep_greatest: bool = False
    """Several measurements of one run: the greatest counts, not the last."""


@dataclass(frozen=True)
class Shape:
    """Records and batches of a throughput measurement."""

    record_bytes: int
    batch_bytes: int
    linger_ms: int
    compression: str
    idempotence: int = 0

    @property
    def is_small(self) -> bool:
        """Whether the batches are the small ones."""
        return self.batch_bytes < SMALL_BATCH_BYTES_MAX

    @property
    def id(self) -> str:
        """The part of a row's id that names the shape."""
        record = "100b" if self.record_bytes == 100 else "1k"
        batch = "16k" if self.is_small else "1m"
        suffix = "-idempotent" if self.idempotence else ""
        return f"{record}-{batch}-{self.compression}{suffix}"

    @property
    def title(self) -> str:
        """For people."""
        record = "100 B" if self.record_bytes == 100 else "1 KB"
        batch = "16 KB" if self.is_small else "1 MB"
        suffix = ", idempotent" if self.idempotence else ""
        return f"{record} records, {batch} batches, {self.compression}{suffix}"


SMALL_BATCH_BYTES_MAX = 100_000
SHAPES = tuple(
    Shape(record_bytes, batch_bytes, linger_ms, compression)
    for record_bytes in (100, 1000)
    for batch_bytes, linger_ms in ((16_384, 5), (1_000_000, 50))
    for compression in ("none", "lz4")
)
IDEMPOTENT_SHAPE = Shape(1000, 16_384, 5, "none", idempotence=1)
"""What Kafka's own producer does by default: five requests in flight, sequence numbers."""

QUICK_SHAPES = ("100b-16k-none", "1k-16k-none", "1k-1m-none", "1k-1m-lz4", IDEMPOTENT_SHAPE.id)
"""Shapes of a quick run, unless others are asked for by name."""

CPU_SHAPES = ("1k-16k-none", "1k-1m-none")
"""Shapes whose CPU time is a row."""

MEMORY_SHAPES = ("100b-16k-none", "1k-1m-none")
"""Shapes during which the broker's memory is watched."""

LATENCY_RATES = (100, 1000)
END_TO_END_RATE = 1000
SPREADS = (10, 100, 1_000, 5_000)
"""Numbers of partitions over which the same requests are spread."""
PERCENTILES = ("p50", "p99", "p999")

THROUGHPUT_GOAL = Goal(KAFKA, 1.0, otherwise=Goal(LIMIT, 0.9))
SMALL_BATCH_GOALS = (Goal(KAFKA, 2.0), Goal(KAFKA_FLUSH, 5.0))


def _produce_row(shape: Shape) -> Row:
    is_goal = shape.is_small and not shape.idempotence
    goals = (THROUGHPUT_GOAL, *(SMALL_BATCH_GOALS if is_goal else ()))
    title = f"produce, {shape.title}"
    return Row(f"produce-{shape.id}", title, "MB/s", True, "synced_write_mb_s", goals)


def _fetch_row(shape: Shape) -> Row:
    title = f"fetch, {shape.title}"
    return Row(f"fetch-{shape.id}", title, "MB/s", True, "loopback_mb_s", (Goal(KAFKA, 1.0),))


def _latency_row(rate: int, percentile: str) -> Row:
    goals: tuple[Goal, ...] = ()
    if rate == 1000 and percentile == "p50":
        goals = (Goal(LIMIT, 1.5),)
    if rate == 1000 and percentile == "p99":
        goals = (Goal(KAFKA_FLUSH, 1.0),)
    title = f"produce latency {percentile} at {rate:,}/s"
    return Row(f"latency-{rate}-{percentile}", title, "µs", False, "three_syncs_us", goals)


def _end_to_end_row(percentile: str) -> Row:
    title = f"end-to-end latency {percentile} at {END_TO_END_RATE:,}/s"
    return Row(f"end-to-end-{percentile}", title, "µs", False, "three_syncs_us")


def _cpu_row(direction: str, shape_id: str) -> Row:
    shape = next(shape for shape in SHAPES if shape.id == shape_id)
    title = f"broker CPU, {direction} of {shape.title}"
    return Row(f"cpu-{direction}-{shape_id}", title, "s/GB", False, None, (Goal(KAFKA, 1.0),))


def _spread_rows(partitions: int) -> tuple[Row, Row]:
    title = f"4 KB requests over {partitions:,} partitions"
    return (
        Row(f"spread-{partitions}", f"produce, {title}", "MB/s", True),
        Row(f"cpu-spread-{partitions}", f"broker CPU, {title}", "s/GB", False),
    )


ROWS: tuple[Row, ...] = (
    *(_produce_row(shape) for shape in SHAPES),
    _produce_row(IDEMPOTENT_SHAPE),
    *(_fetch_row(shape) for shape in SHAPES),
    Row("catch-up", "catch-up fetch after a restart, 1 KB records, 1 MB batches", "MB/s", True,
        "loopback_mb_s", (Goal(KAFKA, 1.0),)),
    Row("unbatched", "un-batched produce requests, 100 B", "req/s", True, None,
        (Goal(KAFKA, 2.0),)),
    *(_latency_row(rate, percentile) for rate in LATENCY_RATES for percentile in PERCENTILES),
    *(_end_to_end_row(percentile) for percentile in PERCENTILES),
    Row("partitions-2000", "2,000 new partitions, one record in each", "s", False, None,
        (Goal(KAFKA, 1.0),)),
    *(row for partitions in SPREADS for row in _spread_rows(partitions)),
    *(_cpu_row(direction, shape) for direction in ("produce", "fetch") for shape in CPU_SHAPES),
    Row("memory-load", "resident memory under load, peak", "MB", False, None,
        (Goal(KAFKA, 0.25),), keep_greatest=True),
    Row("memory-connection", "memory per idle connection", "KB", False),
    Row("startup", "start to first acknowledged record", "s", False),
)  # fmt: skip

BY_ID = {row.id: row for row in ROWS}


def _is_quick(row: Row) -> bool:
    """Without what tells nothing in a second (p999 of 100 records a second) or takes Kafka half a
    minute (its partitions)."""
    if row.id.startswith(("produce-", "fetch-")):
        return row.id.partition("-")[2] in QUICK_SHAPES
    return not row.id.startswith(("latency-100-", "partitions-", "spread-", "cpu-spread-"))


QUICK_ROWS = frozenset(row.id for row in ROWS if _is_quick(row))
