"""A consumer far behind: it reads a topic from a broker that has just been restarted."""

from __future__ import annotations

from bench.cases.case import PARTITIONS, Case
from bench.results import Measurement
from bench.scale import Scale
from bench.systems import System

RECORD_BYTES = 1000
BATCH_BYTES = 1_000_000
DURATION_MS_MAX = 60_000


class CatchUp(Case):
    """Throughput with the broker's own caches cold; the kernel's are as they are."""

    id = "catch-up"
    rows = ("catch-up",)

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Write, restart, read."""
        produced = system.client.run(
            "produce",
            topic=self.make_topic(system),
            partitions=PARTITIONS,
            record_bytes=RECORD_BYTES,
            batch_bytes=BATCH_BYTES,
            linger_ms=50,
            warmup_ms=0,
            duration_ms=DURATION_MS_MAX,
            total_bytes_max=scale.catch_up_bytes,
        )
        system.stop()
        system.start()
        fetched = system.client.run(
            "consume",
            topic=self.id,
            partitions=PARTITIONS,
            records=int(produced["records_total"]),
        )
        return {self.id: Measurement(fetched["bytes"] / 1e6 / fetched["seconds"], raw=fetched)}
