"""The simulated brokers: started, killed, paused and stopped as whole processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import SimLoop
from tests.faults.simulation.network import Network, SimConnection
from tests.faults.simulation.objects import SharedObjects, SimObjects
from tests.faults.simulation.processes import Process, Processes
from tests.faults.simulation.rates import Rates
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.state import SharedState
from tests.faults.simulation.stores import SimStore

from towpath.cluster.identity import load_or_create
from towpath.cluster.membership import BrokerIdInUse
from towpath.core import BrokerCore
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.metadata.store import MetadataError
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime

START_AGAIN_S = 0.3
"""How long a supervisor waits after a start that failed."""


@dataclass(slots=True)
class Broker(Process):
    """One life of one broker process."""

    core: BrokerCore
    metrics: Metrics
    accepting: bool = False
    stopping: bool = False

    @property
    def broker_id(self) -> int:
        """The number by which clients know it."""
        return self.number


class Cluster(Processes[Broker]):
    """All brokers over the shared stores."""

    def __init__(
        self,
        loop: SimLoop,
        scenario: Scenario,
        rates: Rates,
        journal: Journal,
        state: SharedState,
        objects: SharedObjects,
        network: Network,
    ) -> None:
        super().__init__(loop, journal)
        self._scenario = scenario
        self._rates = rates
        self._state = state
        self._objects = objects
        self._network = network
        self.world = Context()
        """The context of what belongs to no broker."""
        self.on_step: Callable[[Broker, str], None] = lambda broker, step: None
        """Called at each step of a flush."""
        self.on_put: Callable[[Broker, str], None] = lambda broker, key: None
        """Called before each put to the metadata store."""
        self.on_write: Callable[[Broker, Sequence[tuple[str, bytes]]], None] | None = None
        """Called with all puts of each write to it."""

    # Lives

    def start(self, broker_id: int) -> None:
        """Begin a new life of a broker; it accepts connections once it has joined."""
        if broker_id in self.present and not self.present[broker_id].node.dead:
            return
        self._lives += 1
        name = f"broker-{broker_id}"
        chance = Chance(self._scenario.seed, f"{name}/life-{self._lives}")
        node = self._loop.node(name)
        skew = self._scenario.skew_ms_max
        clock = SimClock(self._loop, chance.randint(-skew, skew))
        runtime = Runtime(clock, chance.child("product"), InlineOffload())
        store = SimStore(
            self._loop,
            node,
            runtime,
            self._state,
            self._rates,
            chance.child("metadata"),
            eager_watch=self._scenario.eager_watch,
        )
        objects = SimObjects(self._loop, node, self._objects, self._rates, chance.child("objects"))
        metrics = Metrics()
        core = self._core(broker_id, store, objects, runtime, metrics)
        broker = Broker(broker_id, node, clock, store, objects, core, metrics)
        store.on_put = lambda key: self.on_put(broker, key)
        if (on_write := self.on_write) is not None:
            store.on_write = lambda puts: on_write(broker, puts)
        self.present[broker_id] = broker
        self._journal.note(f"start {name}")
        self._loop.create_task(self._boot(broker, runtime), context=node.context)

    def _core(
        self,
        broker_id: int,
        store: SimStore,
        objects: SimObjects,
        runtime: Runtime,
        metrics: Metrics,
    ) -> BrokerCore:
        return BrokerCore(
            store,
            objects,
            runtime,
            metrics,
            self._scenario.core_settings(broker_id),
            lambda step: self.on_step(self.present[broker_id], step),
        )

    async def _boot(self, broker: Broker, runtime: Runtime) -> None:
        """Start the broker's core, again and again as a supervisor would."""
        while True:
            try:
                info = await load_or_create(broker.store, runtime)
                record = BrokerRecord(
                    broker.broker_id, broker.name, 9092, runtime.clock.now_ms(), "simulated"
                )
                await broker.core.start(info.cluster_id, record)
                break
            except (MetadataError, BrokerIdInUse) as error:
                self._journal.note(f"start of {broker.name} failed: {error}")
                await asyncio.sleep(START_AGAIN_S)
                broker.metrics = Metrics()
                broker.core = self._core(
                    broker.broker_id, broker.store, broker.objects, runtime, broker.metrics
                )
            except Exception as error:  # noqa: BLE001 - a start must not fail in any other way
                self._journal.fail(f"the start of {broker.name} broke: {error!r}")
                return
        broker.accepting = True
        self._journal.note(f"ready {broker.name}")

    def kill(self, process: Broker) -> None:
        if not process.node.dead:
            super().kill(process)
            process.accepting = False
            self._network.reset_all(process.node)

    async def stop(self, broker: Broker) -> None:
        """Stop a broker gracefully and wait for it; a killed one is not waited for."""
        if broker.stopping or not broker.accepting:
            return
        broker.stopping, broker.accepting = True, False
        self._journal.note(f"stop {broker.name}")
        stopped = self._loop.create_future()
        self._loop.create_task(self._stop(broker, stopped), context=broker.node.context)
        while not stopped.done() and not broker.node.dead:
            await asyncio.wait([stopped], timeout=1.0)
        if not broker.node.dead:
            self.kill(broker)

    async def _stop(self, broker: Broker, stopped: asyncio.Future[None]) -> None:
        try:
            await broker.core.stop()
        except MetadataError as error:
            self._journal.note(f"stop of {broker.name} failed: {error}")
        except Exception as error:  # noqa: BLE001 - a stop must not fail in any other way
            self._journal.fail(f"the stop of {broker.name} broke: {error!r}")
        stopped.set_result(None)

    # For clients and checks

    def connect(self, client: str, broker: Broker) -> SimConnection:
        """Connect a client; ConnectionRefusedError if nobody listens."""
        if not broker.accepting or broker.node.dead:
            raise ConnectionRefusedError(f"{broker.name} does not listen")
        return self._network.connect(client, broker.node, broker.core.server.accept())
