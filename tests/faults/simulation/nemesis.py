"""What befalls whole brokers: pauses, crashes, restarts, wrong clocks, outages, partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.cluster import Broker, Cluster
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import SimLoop
from tests.faults.simulation.network import Network
from tests.faults.simulation.scenario import JUMP_MS_MAX, LOAD_S, Scenario
from tests.faults.simulation.state import SharedState

from towpath.metadata.keys import wal

NEVER_AGAIN = 0.25
"""How often a killed broker is not started again, if another one is left."""
STEP_WAIT_S = 3.0
"""How long a fault waits for a broker to take the step at which it strikes."""
FLUSH_STEPS = ("before-put", "after-put", "after-put", "after-commit")


class Nemesis:
    """Carries out the scenario's disasters one after the other."""

    def __init__(
        self,
        loop: SimLoop,
        scenario: Scenario,
        cluster: Cluster,
        network: Network,
        state: SharedState,
        journal: Journal,
        clients: Sequence[str],
    ) -> None:
        self._loop = loop
        self._scenario = scenario
        self._cluster = cluster
        self._network = network
        self._state = state
        self._journal = journal
        self._clients = clients
        self._chance = Chance(scenario.seed, "nemesis")
        self._armed: tuple[str, str] | None = None
        """A step of a flush, or the start of a key, and what shall happen there."""
        self._struck = asyncio.Event()
        cluster.on_step = self._on_step
        cluster.on_put = self._on_put

    async def run(self) -> None:
        """All disasters, spread over the load."""
        for _ in range(self._scenario.disaster_count if self._scenario.disasters else 0):
            await asyncio.sleep(self._chance.random() * LOAD_S / 3)
            brokers = [one for one in self._cluster.alive() if one.accepting]
            if brokers:
                await self._strike(
                    self._chance.pick(*self._scenario.disasters), self._chance.pick(*brokers)
                )
        self._armed = None
        await asyncio.sleep(self._cluster.paused_for_s())

    def heal(self) -> None:
        """Undo what can be undone: everybody runs, clocks are right, lines are whole."""
        self._armed = None
        for broker in self._cluster.alive():
            broker.clock.skew_ms = 0
            broker.store.line.cut_until_s = broker.objects.line.cut_until_s = 0.0
            self._cluster.resume(broker)
        if not self._cluster.alive():
            self._cluster.start(1)

    async def _strike(self, disaster: str, broker: Broker) -> None:
        self._journal.note(f"disaster {disaster} at {broker.name}")
        scenario, chance = self._scenario, self._chance
        if disaster == "pause":
            seconds = chance.random() * 2 * scenario.session_ttl_ms / 1000
            self._cluster.pause(broker, seconds)
        elif disaster == "long-pause":
            self._cluster.pause(broker, self._long_pause_s())
        elif disaster in ("pause-in-flush", "crash-in-flush"):
            await self._strike_at(chance.pick(*FLUSH_STEPS), disaster)
        elif disaster == "pause-in-collection":
            await self._strike_at(wal.DEREFS_PREFIX, disaster)
        elif disaster == "crash":
            self._kill(broker)
        elif disaster == "restart":
            await self._cluster.stop(broker)
            self._cluster.start(broker.broker_id)
        elif disaster == "clock-jump":
            broker.clock.skew_ms = chance.randint(-JUMP_MS_MAX, JUMP_MS_MAX)
        elif disaster == "lost-session":
            if sessions := self._state.session_ids:
                self._state.end_session(chance.pick(*sessions))
        elif disaster == "lost-feed":
            broker.store.lose_feed()
        elif disaster == "metadata-outage":
            broker.store.line.cut_until_s = self._soon()
        elif disaster == "objects-outage":
            broker.objects.line.cut_until_s = self._soon()
        else:
            assert disaster == "partition"
            self._network.partition(chance.pick(*self._clients), broker.name, self._soon())

    def _soon(self) -> float:
        return self._loop.time() + self._chance.uniform(0.2, 3.0)

    def _long_pause_s(self) -> float:
        """Longer than any time to live of what a broker reserves."""
        scenario = self._scenario
        over_ms = scenario.wal_orphan_ttl_ms + scenario.wal_gc_grace_ms
        return (over_ms + 4 * scenario.gc_interval_ms) / 1000 + 4 * self._chance.random()

    def _kill(self, broker: Broker) -> None:
        self._cluster.kill(broker)
        if self._cluster.alive() and self._chance.happens(NEVER_AGAIN):
            return
        self._loop.call_later(self._chance.random() * 2.0, self._cluster.start, broker.broker_id)

    # Faults in the middle of something

    async def _strike_at(self, step: str, disaster: str) -> None:
        self._struck.clear()
        self._armed = (step, disaster)
        try:
            async with asyncio.timeout(STEP_WAIT_S):
                await self._struck.wait()
        except TimeoutError:
            self._armed = None

    def _on_step(self, broker: Broker, step: str) -> None:
        if self._armed is None or self._armed[0] != step:
            return
        disaster, self._armed = self._armed[1], None
        self._struck.set()
        self._journal.note(f"{disaster} {step} at {broker.name}")
        if disaster == "crash-in-flush":
            # In the broker's own step: what it starts from here on must not happen.
            self._loop.call_soon(self._after_kill, broker, context=self._cluster.world)
            broker.node.dead = True
        else:
            short_s = 2 * self._scenario.session_ttl_ms / 1000
            # A put that leaves after its reservation was collected has nobody left to clean up.
            long = step != "before-put" and self._chance.happens(0.7)
            self._loop.call_soon(
                self._cluster.resume_later,
                broker,
                self._long_pause_s() if long else short_s,
                context=self._cluster.world,
            )
            broker.node.paused = True

    def _on_put(self, broker: Broker, key: str) -> None:
        """A collector that has let a chunk go stops before it removes the entry."""
        if self._armed is not None and key.startswith(self._armed[0]):
            self._journal.note(f"{self._armed[1]} at {broker.name}")
            self._armed = None
            self._struck.set()
            # The put itself leaves in this step of the broker.
            self._loop.call_soon(
                self._cluster.pause, broker, self._long_pause_s(), context=self._cluster.world
            )

    def _after_kill(self, broker: Broker) -> None:
        broker.node.dead = False
        self._kill(broker)
