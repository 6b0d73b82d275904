"""Produce at full speed, then fetch what was produced."""

from __future__ import annotations

from typing import Any

from bench.cases.case import PARTITIONS, Case
from bench.process_stats import PeakResident, cpu_seconds
from bench.results import Measurement
from bench.rows import CPU_SHAPES, MEMORY_SHAPES, Shape
from bench.scale import Scale
from bench.systems import KAFKA_FLUSH, NAMES, System

MB = 1_000_000
GB = 1_000_000_000


class Throughput(Case):
    """One shape of records and batches."""

    def __init__(self, shape: Shape) -> None:
        self.id = f"throughput-{shape.id}"
        self._shape = shape
        rows = [f"produce-{shape.id}"]
        if not shape.idempotence:
            rows.append(f"fetch-{shape.id}")
        if shape.id in CPU_SHAPES:
            rows += [f"cpu-{direction}-{shape.id}" for direction in ("produce", "fetch")]
        if shape.id in MEMORY_SHAPES:
            rows.append("memory-load")
        self.rows = tuple(rows)
        if shape.is_small:
            self.systems = NAMES

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Produce, then fetch; Kafka that syncs reads as Kafka does and is not asked to."""
        self.make_topic(system)
        with PeakResident(system.pids) as watched:
            produced, produce_cpu_s = self._produce(system, scale)
            found = self._produce_rows(produced, produce_cpu_s)
            if system.name != KAFKA_FLUSH and not self._shape.idempotence:
                found |= self._fetch_rows(system, produced, wire_share(produced))
        if system.name != KAFKA_FLUSH:
            found["memory-load"] = Measurement(watched.peak_bytes / MB)
        return {row: measured for row, measured in found.items() if row in self.rows}

    def _produce(self, system: System, scale: Scale) -> tuple[dict[str, Any], float]:
        before_s = cpu_seconds(system.pids)
        produced = system.client.run(
            "produce",
            topic=self.id,
            partitions=PARTITIONS,
            record_bytes=self._shape.record_bytes,
            batch_bytes=self._shape.batch_bytes,
            linger_ms=self._shape.linger_ms,
            compression=self._shape.compression,
            idempotence=self._shape.idempotence,
            warmup_ms=scale.warmup_ms,
            duration_ms=scale.duration_ms,
            total_bytes_max=scale.total_bytes_max,
        )
        return produced, cpu_seconds(system.pids) - before_s

    def _produce_rows(self, produced: dict[str, Any], cpu_s: float) -> dict[str, Measurement]:
        record_bytes = self._shape.record_bytes
        value = produced["records"] * record_bytes / MB / produced["seconds"]
        raw = {**produced, "broker_cpu_s": cpu_s}
        total_gb = produced["records_total"] * record_bytes / GB
        return {
            f"produce-{self._shape.id}": Measurement(value, value * wire_share(produced), raw),
            f"cpu-produce-{self._shape.id}": Measurement(cpu_s / total_gb),
        }

    def _fetch_rows(
        self, system: System, produced: dict[str, Any], share: float
    ) -> dict[str, Measurement]:
        before_s = cpu_seconds(system.pids)
        total = int(produced["records_total"])
        fetched = system.client.run("consume", topic=self.id, partitions=PARTITIONS, records=total)
        cpu_s = cpu_seconds(system.pids) - before_s
        value = fetched["bytes"] / MB / fetched["seconds"]
        raw = {**fetched, "broker_cpu_s": cpu_s}
        total_gb = total * self._shape.record_bytes / GB
        return {
            f"fetch-{self._shape.id}": Measurement(value, value * share, raw),
            f"cpu-fetch-{self._shape.id}": Measurement(cpu_s / total_gb),
        }


def wire_share(produced: dict[str, Any]) -> float:
    """Bytes on the wire per byte of record, headers and compression included."""
    record_bytes: int = produced["records_total"] * produced["record_bytes"]
    return float(produced["wire_bytes_total"]) / record_bytes if record_bytes else 1.0
