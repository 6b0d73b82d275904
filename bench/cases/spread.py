"""The same bytes in the same number of requests, over few and over many partitions."""

from __future__ import annotations

from bench.cases.case import Case
from bench.process_stats import cpu_seconds
from bench.results import Measurement
from bench.scale import Scale
from bench.systems import KAFKA, TOWPATH, System

RECORD_BYTES = 4_000
RECORDS_WAITING_MAX = 2_000
KAFKA_PARTITIONS_MAX = 1_000
"""Kafka takes minutes to create more, and keeps three files open for each."""
MB, GB = 1e6, 1e9


class Spread(Case):
    """Throughput and CPU time with one record per request, so that batches do not shrink."""

    def __init__(self, partitions: int) -> None:
        self.id = f"spread-{partitions}"
        self.rows = (self.id, f"cpu-{self.id}")
        self.systems = (TOWPATH, KAFKA) if partitions <= KAFKA_PARTITIONS_MAX else (TOWPATH,)
        self._partitions = partitions

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Produce to all partitions in turn."""
        topic = self.make_topic(system, self._partitions)
        before_s = cpu_seconds(system.pids)
        done = system.client.run(
            "produce",
            topic=topic,
            partitions=self._partitions,
            record_bytes=RECORD_BYTES,
            batch_records=1,
            linger_ms=0,
            queue_records=RECORDS_WAITING_MAX,
            warmup_ms=scale.warmup_ms,
            duration_ms=scale.duration_ms,
        )
        cpu_s = cpu_seconds(system.pids) - before_s
        value = done["records"] * RECORD_BYTES / MB / done["seconds"]
        total_gb = done["records_total"] * RECORD_BYTES / GB
        return {
            self.id: Measurement(value, raw=done),
            f"cpu-{self.id}": Measurement(cpu_s / total_gb),
        }
