"""What a connection costs that does nothing."""

from __future__ import annotations

from bench.cases.case import Case
from bench.errors import MeasurementFailed
from bench.idle_connections import connections_possible, idle_connections
from bench.process_stats import resident_bytes
from bench.results import Measurement
from bench.scale import Scale
from bench.systems import System


class Connections(Case):
    """Growth of resident memory per idle connection."""

    id = "memory-connection"
    rows = ("memory-connection",)
    on_fresh_broker = True  # Later on, memory that other work has left behind would hide it.

    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Hold the connections and look at the broker before and meanwhile."""
        count = connections_possible(scale.idle_connections)
        port = system.process.ports[0]
        before_bytes = resident_bytes(system.pids)
        try:
            with idle_connections(port, count):
                grown_bytes = resident_bytes(system.pids) - before_bytes
        except OSError as error:
            raise MeasurementFailed(f"idle connections: {error}") from error
        raw = {"connections": count, "grown_bytes": grown_bytes}
        return {self.id: Measurement(grown_bytes / count / 1000, raw=raw)}
