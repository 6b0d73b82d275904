"""How much each part of the pipeline's benchmark does: a full run, or a quick one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MB = 1_000_000


@dataclass(frozen=True)
class Scale:
    """Sizes and durations, the same for every system."""

    backlog_bytes: int
    """Keys and values of a topic that is compacted."""

    warmup_bytes: int
    """The same of the topic that each session compacts first: a JVM compiles while it works."""

    rounds: int
    """Measured rounds of each system within a run; the median one counts. A round of ours takes a
    second or two, and the machine is not quiet for every one of them."""

    memory_backlog_bytes: int
    """The larger one of the two backlogs whose memory is compared."""

    memory_given_bytes: int
    """What all workers together may allocate above what they need for a tiny backlog."""

    lag_seconds: float
    disk_free_bytes_min: int

    def to_json(self) -> dict[str, float]:
        """For `compact.json`."""
        return asdict(self)


FULL = Scale(
    backlog_bytes=500 * MB,
    warmup_bytes=100 * MB,
    rounds=3,
    memory_backlog_bytes=2_000 * MB,
    memory_given_bytes=200 * MB,
    lag_seconds=60.0,
    disk_free_bytes_min=20_000 * MB,
)

QUICK = Scale(
    backlog_bytes=50 * MB,
    warmup_bytes=20 * MB,
    rounds=1,
    memory_backlog_bytes=240 * MB,
    memory_given_bytes=200 * MB,
    lag_seconds=20.0,
    disk_free_bytes_min=5_000 * MB,
)
