"""One record per request, thousands of requests on their way."""

from __future__ import annotations

from bench.cases.case import PARTITIONS, Case
from bench.results import Measurement
from bench.scale import Scale
from bench.systems import NAMES, System

RECORD_BYTES = 100
RECORDS_WAITING_MAX = 2_000
"""Records that the client holds at once, sent and unsent."""


class Unbatched(Case):
    """Requests per second."""

    id = "unbatched"
    rows = ("unbatched",)
    systems = NAMES

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Produce without linger and with batches of one record."""
        done = system.client.run(
            "produce",
            topic=self.make_topic(system),
            partitions=PARTITIONS,
            record_bytes=RECORD_BYTES,
            batch_records=1,
            linger_ms=0,
            queue_records=RECORDS_WAITING_MAX,
            warmup_ms=scale.warmup_ms,
            duration_ms=scale.duration_ms,
        )
        return {self.id: Measurement(done["records"] / done["seconds"], raw=done)}
