"""What was measured, by row, system and run, and its form in `results.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.ratios import Ratio, ratio
from bench.rows import LIMIT, Row
from bench.systems import KAFKA, KAFKA_FLUSH, TOWPATH


@dataclass(frozen=True)
class Measurement:
    """One value of a row."""

    value: float
    bounded_value: float | None = None
    """The value as the row's limit counts it, where that differs: bytes on the wire of compressed
    records against bytes of the records."""

    raw: Mapping[str, Any] = field(default_factory=dict)
    """What the client and the broker's processes told."""


@dataclass
class Results:
    """All measurements of a benchmark."""

    environment: dict[str, Any]
    settings: dict[str, Any]
    values: dict[str, dict[str, dict[int, Measurement]]] = field(default_factory=dict)
    """Row id, system, run."""

    limits: dict[str, dict[int, float]] = field(default_factory=dict)
    """Name of the limit, run."""

    idle_cpu: dict[str, float] = field(default_factory=dict)
    """CPU used by the systems that were not under test, in cores, by measurement."""

    failures: list[str] = field(default_factory=list)

    def add(self, row: Row, system: str, run: int, measured: Measurement) -> None:
        """Keep a measurement."""
        by_run = self.values.setdefault(row.id, {}).setdefault(system, {})
        before = by_run.get(run)
        if before is None or not row.keep_greatest or measured.value > before.value:
            by_run[run] = measured

    def add_limits(self, run: int, limits: Mapping[str, float]) -> None:
        """Keep the limits of a run."""
        for name, value in limits.items():
            self.limits.setdefault(name, {})[run] = value

    def of(self, row: Row, system: str) -> dict[int, float]:
        """The values of a row by run."""
        by_run = self.values.get(row.id, {}).get(system, {})
        return {run: measured.value for run, measured in by_run.items()}

    def ratios(self, row: Row) -> dict[str, Ratio]:
        """Ours to each of the others and to the limit, as far as they were measured."""
        ours = self.of(row, TOWPATH)
        found = {name: ratio(ours, self.of(row, name)) for name in (KAFKA, KAFKA_FLUSH)}
        if row.limit is not None:
            measured = self.values.get(row.id, {}).get(TOWPATH, {})
            bounded = {
                run: one.value if one.bounded_value is None else one.bounded_value
                for run, one in measured.items()
            }
            found[LIMIT] = ratio(bounded, self.limits.get(row.limit, {}))
        return {name: one for name, one in found.items() if one is not None}

    def to_json(self) -> dict[str, Any]:
        """Everything, for `results.json`."""
        return {
            "environment": self.environment,
            "settings": self.settings,
            "limits": self.limits,
            "rows": {
                row: {
                    system: {
                        run: {
                            "value": one.value,
                            "bounded_value": one.bounded_value,
                            "raw": dict(one.raw),
                        }
                        for run, one in by_run.items()
                    }
                    for system, by_run in by_system.items()
                }
                for row, by_system in self.values.items()
            },
            "idle_cpu_cores": self.idle_cpu,
            "failures": self.failures,
        }
