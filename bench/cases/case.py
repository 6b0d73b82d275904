"""What every measurement has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bench.results import Measurement
from bench.scale import Scale
from bench.systems import KAFKA, TOWPATH, System

PARTITIONS = 4
"""Partitions of a topic that is measured."""


class Case(ABC):
    """One measurement of one system at a time."""

    id: str
    rows: tuple[str, ...]
    """The rows it gives."""

    systems: tuple[str, ...] = (TOWPATH, KAFKA)

    on_fresh_broker = False
    """Measured before the broker is warmed up."""

    @abstractmethod
    def measure(self, system: System, scale: Scale) -> dict[str, Measurement]:
        """Values by row. Raises MeasurementFailed."""

    def make_topic(self, system: System, partitions: int = PARTITIONS) -> str:
        """A new topic of this case; a system sees each case once."""
        system.client.run("create", topic=self.id, partitions=partitions)
        return self.id
