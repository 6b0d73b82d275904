"""A topic of many partitions: its creation, and the first record in each."""

from __future__ import annotations

from bench.cases.case import Case
from bench.results import Measurement
from bench.scale import Scale
from bench.systems import System

TIMEOUT_MS = 180_000
"""Kafka needs a minute for it on a busy machine."""


class Partitions(Case):
    """Seconds from the request to the last acknowledgement."""

    id = "partitions-2000"
    rows = ("partitions-2000",)

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Create the topic, then produce to it."""
        done = system.client.run(
            "partitions", topic=self.id, partitions=scale.partitions, timeout_ms=TIMEOUT_MS
        )
        return {self.id: Measurement(done["create_seconds"] + done["produce_seconds"], raw=done)}
