"""How much each part of the readers' benchmark does: a full run, or a quick one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MB = 1_000_000


@dataclass(frozen=True)
class Scale:
    """Sizes, durations and repetitions, the same for every system."""

    read_bytes: int
    """Keys and values of a topic that is read."""

    read_warm_ups: int
    """Reads before those that count: the JVM compiles and sizes its heap for some of them."""

    read_repetitions: int
    cold_records: int
    filter_records: int
    sql_repetitions: int
    visible_seconds: float
    sink_bytes: int
    """Keys and values of one write, at most."""

    sink_repetitions: int
    disk_free_bytes_min: int

    def to_json(self) -> dict[str, float]:
        """For `read.json`."""
        return asdict(self)


FULL = Scale(
    read_bytes=500 * MB,
    read_warm_ups=5,
    read_repetitions=5,
    cold_records=1_000_000,
    filter_records=10_000_000,
    sql_repetitions=7,
    visible_seconds=30.0,
    sink_bytes=200 * MB,
    sink_repetitions=3,
    disk_free_bytes_min=15_000 * MB,
)

QUICK = Scale(
    read_bytes=50 * MB,
    read_warm_ups=1,
    read_repetitions=1,
    cold_records=100_000,
    filter_records=1_000_000,
    sql_repetitions=3,
    visible_seconds=8.0,
    sink_bytes=20 * MB,
    sink_repetitions=1,
    disk_free_bytes_min=4_000 * MB,
)
