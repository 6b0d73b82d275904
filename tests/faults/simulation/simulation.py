"""One run: the world of a seed, its load and faults, and the checks after them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from tests.faults.simulation import checks
from tests.faults.simulation.admin import Admin
from tests.faults.simulation.chance import Chance
from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.cluster import Broker, Cluster
from tests.faults.simulation.consumer import Consumer
from tests.faults.simulation.group_scenario import at_the_pace_of
from tests.faults.simulation.group_world import GroupWorld
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import Ledger
from tests.faults.simulation.loop import START_S, SimLoop, SimulationStuck
from tests.faults.simulation.nemesis import Nemesis
from tests.faults.simulation.network import Network
from tests.faults.simulation.objects import SharedObjects
from tests.faults.simulation.observer import Observer
from tests.faults.simulation.producers import IdempotentProducer, PlainProducer
from tests.faults.simulation.quiet import quiet_logs
from tests.faults.simulation.scenario import LOAD_S, draw
from tests.faults.simulation.state import SharedState
from tests.faults.simulation.table_world import TableWorld
from tests.faults.simulation.wire import Wire

from towpath.runtime import InlineOffload, Runtime

SETUP_S = 60.0
"""Within this time the topics exist, whatever fails."""
DRAIN_S = 60.0
"""Within this time after the faults have stopped every producer has its answers."""
REWINDS = 0.15
"""How often a consumer goes back in a partition, where there are tables."""
SETTLE_S = 300.0
"""More than any group takes to come to rest, twice; `group_checks.py` is stricter."""
HEAL_S = 8.0
"""After this time without faults brokers have started, registered and caught up."""


@dataclass(slots=True)
class Outcome:
    """What a run found."""

    seed: int
    failures: list[str]
    digest: str
    steps: int
    virtual_s: float
    counts: dict[str, int] = field(default_factory=dict)


class Simulation:
    """The world of one seed."""

    def __init__(self, seed: int, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.scenario, self.rates = draw(seed)
        self.journal = Journal(self.loop, echo)
        self.clock = SimClock(self.loop)
        runtime = Runtime(self.clock, Chance(seed, "world"), InlineOffload())
        self.objects = SharedObjects(runtime)
        self.ledger = self.objects.ledger = Ledger(self.journal, self.objects.content)
        self.state = SharedState(self.loop, self.clock, self.ledger)
        self.observer = Observer(self.journal, self.ledger)
        self.network = Network(self.loop, self.rates, Chance(seed, "network"))
        self.cluster = Cluster(
            self.loop,
            self.scenario,
            self.rates,
            self.journal,
            self.state,
            self.objects,
            self.network,
        )
        self.tables = None if self.scenario.tables is None else TableWorld(self)
        self._clients: list[str] = []
        self.groups = None if self.scenario.groups is None else GroupWorld(self)

    def run(self) -> Outcome:
        """Run everything and tell what was found."""
        self.journal.note(f"{self.scenario}")
        self.journal.note(f"{self.rates}")
        with quiet_logs(self.journal, self.ledger), at_the_pace_of(self.scenario.groups):
            try:
                self.loop.run_until_complete(self._main())
            except SimulationStuck as error:
                self.journal.failures.append(str(error))
            except Exception as error:
                # A client or a check that breaks is a finding too.
                self.journal.failures.append(f"the simulation broke: {error!r}")
                if self.journal.verbose:
                    raise
            outcome = self._outcome()
            self.journal.mute()
            self.loop.demolish()
        return outcome

    def _outcome(self) -> Outcome:
        return Outcome(
            self.seed,
            [*self.journal.failures, *self.loop.complaints],
            self.journal.digest,
            self.loop.steps,
            self.loop.time() - START_S,
            {
                **self.observer.counts,
                **(self.tables.counts() if self.tables is not None else {}),
                **(self.groups.counts() if self.groups is not None else {}),
                "deleted objects": self.objects.deleted_count,
            },
        )

    # The phases

    async def _main(self) -> None:
        for broker_id in range(1, self.scenario.brokers + 1):
            self.cluster.start(broker_id)
        if self.tables is not None:
            self.tables.start()
        admin = Admin(self.scenario, self.wire("admin"), self.observer, Chance(self.seed, "admin"))
        if not await self._within(SETUP_S, "creating topics", self._create_topics(admin)):
            return
        consumers = [self._consumer(n) for n in range(self.scenario.consumers)]
        background = [self._spawn(consumer.run()) for consumer in consumers]
        background.append(self._spawn(admin.run()))
        declaring = self._declare_values()
        producers = self._start_producers()
        nemesis = Nemesis(
            self.loop,
            self.scenario,
            self.cluster,
            self.network,
            self.state,
            self.journal,
            self._clients,
        )
        disasters = [nemesis.run()]
        if self.tables is not None:
            disasters.append(self.tables.nemesis.run())
        if self.groups is not None:
            self.groups.start()
            disasters.append(self.groups.nemesis.run())
        await asyncio.gather(*disasters, asyncio.sleep(LOAD_S))
        background[-1].cancel()
        self.journal.note("the faults stop")
        self.rates.calm()
        if self.groups is not None:
            self.groups.calm_down()
        self._heal(nemesis)
        if not await self._within(DRAIN_S, "the producers", asyncio.gather(*producers)):
            return
        if not await self._within(DRAIN_S, "the declarations", asyncio.gather(*declaring)):
            return
        await asyncio.sleep(HEAL_S)
        self._heal(nemesis)
        for consumer in consumers:
            consumer.stopping = True
        await self._within(DRAIN_S, "the consumers", asyncio.gather(*background[:-1]))
        if self.groups is not None:
            await self._within(SETTLE_S, "the groups", self.groups.settle())
        await self._check()

    async def _check(self) -> None:
        progress = checks.Progress(self.scenario, self.cluster, self.observer, self.journal)
        await progress.check(self._producer_through)
        checks.check_produced(self.observer, self.ledger, self.journal)
        if self.tables is not None:
            await self.tables.settle()
        await asyncio.sleep(self.scenario.settling_s)
        await checks.read_all(self.cluster, self.observer, progress, self.journal)
        if self.tables is not None:
            await self._within(DRAIN_S, "the stop of the compactors", self.tables.stop())
            self.tables.checks.check()
        checks.check_nothing_left(self.state, self.objects, self.ledger, self.journal)
        if self.groups is not None:
            self.groups.checks.check_nothing_left()
        for broker in self.cluster.alive():
            await self._within(DRAIN_S, f"the stop of {broker.name}", self.cluster.stop(broker))

    def _heal(self, nemesis: Nemesis) -> None:
        nemesis.heal()
        if self.tables is not None:
            self.tables.nemesis.heal()
        if self.groups is not None:
            self.groups.nemesis.heal()

    # Clients

    async def _create_topics(self, admin: Admin) -> None:
        for number, partitions in enumerate(self.scenario.topic_partitions):
            await admin.create(f"topic-{number}", partitions)

    def _declare_values(self) -> list[asyncio.Task[None]]:
        tables = self.scenario.tables
        if tables is None or not tables.declares_values:
            return []
        chance = Chance(self.seed, "declarer")
        declarer = Admin(self.scenario, self.wire("declarer"), self.observer, chance)
        return [self._spawn(declarer.declare())]

    def _start_producers(self) -> list[asyncio.Task[None]]:
        tasks = [
            self._spawn(self._plain(f"plain-{number}").run())
            for number in range(self.scenario.plain_producers)
        ]
        for number in range(self.scenario.idempotent_producers):
            name = f"exact-{number}"
            producer = IdempotentProducer(
                self.scenario,
                self.wire(name),
                self.observer,
                self.clock,
                Chance(self.seed, name),
            )
            tasks.append(self._spawn(producer.run()))
        return tasks

    def _plain(self, name: str, broker: Broker | None = None) -> PlainProducer:
        return PlainProducer(
            self.scenario,
            self.wire(name, broker),
            self.observer,
            self.clock,
            Chance(self.seed, name),
        )

    def _producer_through(self, broker: Broker) -> PlainProducer:
        return self._plain(f"late-{len(self._clients)}", broker)

    def _consumer(self, number: int) -> Consumer:
        name = f"consumer-{number}"
        rewinds = 0.0 if self.tables is None else REWINDS
        return Consumer(self.wire(name), self.observer, Chance(self.seed, name), rewinds=rewinds)

    def wire(self, name: str, broker: Broker | None = None) -> Wire:
        """A new client."""
        self._clients.append(name)
        return Wire(
            self.cluster,
            name,
            Chance(self.seed, f"{name}/wire"),
            self.scenario.request_timeout_s,
            broker,
        )

    # Helpers

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.loop.create_task(work)

    async def _within(self, seconds: float, what: str, work: Awaitable[object]) -> bool:
        """Wait for work of the clients; whether it ended in time."""
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            self.journal.fail(f"{what} did not end within {seconds} s")
            return False
        return True


def simulate(seed: int, echo: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed."""
    outcome = Simulation(seed, echo).run()
    gc.collect(1)
    return outcome
