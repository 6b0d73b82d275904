"""How long each measurement takes: a full run, or a quick one."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Scale:
    """Durations and sizes, the same for every system."""

    warmup_ms: int
    duration_ms: int
    total_bytes_max: int
    latency_warmup_ms: int
    latency_duration_ms: int
    latency_slow_duration_ms: int
    """At 100 records a second, which needs longer for the same number of records."""

    catch_up_bytes: int
    limit_seconds: float
    partitions: int
    idle_connections: int
    broker_warmup_ms: int
    """Load on each broker before the first case: a JVM compiles while it works."""

    disk_free_bytes_min: int

    def to_json(self) -> dict[str, float]:
        """For `results.json`."""
        return asdict(self)


FULL = Scale(
    warmup_ms=1_000,
    duration_ms=4_000,
    total_bytes_max=1_500_000_000,
    latency_warmup_ms=2_000,
    latency_duration_ms=15_000,
    latency_slow_duration_ms=30_000,
    catch_up_bytes=1_000_000_000,
    limit_seconds=1.0,
    partitions=2_000,
    idle_connections=1_000,
    broker_warmup_ms=8_000,
    disk_free_bytes_min=45_000_000_000,
)

QUICK = Scale(
    warmup_ms=200,
    duration_ms=500,
    total_bytes_max=300_000_000,
    latency_warmup_ms=300,
    latency_duration_ms=1_500,
    latency_slow_duration_ms=1_500,
    catch_up_bytes=150_000_000,
    limit_seconds=0.2,
    partitions=2_000,
    idle_connections=1_000,
    broker_warmup_ms=400,
    disk_free_bytes_min=10_000_000_000,
)
