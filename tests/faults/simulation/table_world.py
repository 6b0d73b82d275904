"""The tables' part of a run: catalog, compactors, their disasters and checks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.faults.simulation.catalog import SharedCatalog
from tests.faults.simulation.compactors import Compactors
from tests.faults.simulation.table_checks import TableChecks
from tests.faults.simulation.table_ledger import TableLedger
from tests.faults.simulation.table_nemesis import TableNemesis

from towpath.observe.metrics import Metrics

if TYPE_CHECKING:
    from tests.faults.simulation.simulation import Simulation


class TableWorld:
    """What a simulation has besides brokers and clients if its scenario has tables."""

    def __init__(self, world: Simulation) -> None:
        scenario = world.scenario
        assert scenario.tables is not None
        self._scenario = scenario.tables
        self._world = world
        self.ledger = TableLedger(world.journal, world.ledger, world.objects.content)
        self.catalog = SharedCatalog(world.clock, self.ledger, scenario.tables.history)
        world.ledger.naming = self.catalog.naming
        self.compactors = Compactors(
            world.loop,
            scenario,
            world.rates,
            world.journal,
            world.state,
            world.objects,
            self.catalog,
        )
        self.nemesis = TableNemesis(
            world.loop, scenario, self.compactors, self.catalog, world.state, world.journal
        )
        self.checks = TableChecks(
            world.journal,
            world.state,
            world.objects,
            world.ledger,
            self.ledger,
            self.catalog,
            world.observer,
        )

    def start(self) -> None:
        """Start all compactors."""
        for number in range(1, self._scenario.compactors + 1):
            self.compactors.start(number)

    async def settle(self) -> None:
        """Wait until everything is compacted; from then on one compactor rests."""
        await self.nemesis.wait_for_catalog()
        await self.checks.settle(self._scenario.compacting_s)
        await self.compactors.rest()

    async def stop(self) -> None:
        """Stop all compactors."""
        for compactor in self.compactors.alive():
            await self.compactors.stop(compactor)

    def counts(self) -> Counter[str]:
        """How often things happened."""
        counts = self.ledger.counts + self.nemesis.counts
        for compactor in self.compactors.every_life():
            counts.update(compactor.runner.counts)
        counts["reads of Parquet"] = sum(
            _lookups(broker.metrics) for broker in self._world.cluster.every_life()
        )
        return counts


def _lookups(metrics: Metrics) -> int:
    """How often a broker looked for batches made of Parquet files."""
    found = (metrics.cache_hits.labels("parquet"), metrics.cache_misses.labels("parquet"))
    return sum(int(counter._value.get()) for counter in found)
