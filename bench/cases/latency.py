"""Latency of records that are sent at an even pace."""

from __future__ import annotations

from typing import Any

from bench.cases.case import Case
from bench.results import Measurement
from bench.rows import END_TO_END_RATE, PERCENTILES
from bench.scale import Scale
from bench.systems import NAMES, System

RECORD_BYTES = 100
SLOW_RATE_MAX = 100
"""Up to this many records a second the longer duration counts."""


class Latency(Case):
    """From the moment a record is due to its acknowledgement."""

    systems = NAMES

    def __init__(self, rate: int) -> None:
        self.id = f"latency-{rate}"
        self.rows = tuple(f"{self.id}-{percentile}" for percentile in PERCENTILES)
        self._rate = rate

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Produce at the rate."""
        done = _run(self, system, scale, self._rate, consume=False)
        return _percentiles(self.id, done["ack"])


class EndToEnd(Case):
    """From the moment a record is due to its arrival at a consumer."""

    id = "end-to-end"
    rows = tuple(f"end-to-end-{percentile}" for percentile in PERCENTILES)
    systems = NAMES

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Produce and consume in one process."""
        done = _run(self, system, scale, END_TO_END_RATE, consume=True)
        return _percentiles(self.id, done["arrival"])


def _run(case: Case, system: System, scale: Scale, rate: int, *, consume: bool) -> dict[str, Any]:
    slow = rate <= SLOW_RATE_MAX
    return system.client.run(
        "rate",
        topic=case.make_topic(system, partitions=1),
        record_bytes=RECORD_BYTES,
        rate=rate,
        linger_ms=0,
        consume=int(consume),
        warmup_ms=scale.latency_warmup_ms,
        duration_ms=scale.latency_slow_duration_ms if slow else scale.latency_duration_ms,
    )


def _percentiles(prefix: str, told: dict[str, Any]) -> dict[str, Measurement]:
    found = {
        f"{prefix}-{percentile}": Measurement(told[f"{percentile}_us"])
        for percentile in PERCENTILES
    }
    found[f"{prefix}-p50"] = Measurement(told["p50_us"], raw=told)
    return found
