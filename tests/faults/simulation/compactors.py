"""The simulated compactors: the product's pipeline, upkeep and collectors as whole processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from contextvars import Context
from dataclasses import dataclass

from tests.faults.simulation.catalog import SharedCatalog
from tests.faults.simulation.chance import Chance
from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import SimLoop
from tests.faults.simulation.objects import SharedObjects, SimObjects
from tests.faults.simulation.processes import Process, Processes
from tests.faults.simulation.rates import Rates
from tests.faults.simulation.runner import SimRunner
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.state import SharedState
from tests.faults.simulation.stores import SimStore
from tests.faults.simulation.tables import SimTables

from towpath.cluster.features import reach_level
from towpath.gc.runner import GcRunner, Job
from towpath.lakehouse.deleted_tables import DeletedTables
from towpath.lakehouse.file_gc import FileCollector
from towpath.lakehouse.orphan_files import OrphanFiles
from towpath.lakehouse.pipeline import Pipeline
from towpath.lakehouse.service import PipelineService
from towpath.lakehouse.upkeep import TableUpkeep
from towpath.log.object.producer_states import ProducerStates
from towpath.metadata.store import MetadataError
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import Topics

START_AGAIN_S = 0.3
PRODUCER_EXPIRY_MS = 86_400_000
ORPHAN_LOOKS = 4
"""How often orphans are looked for in the time that they are given."""


@dataclass(slots=True)
class Compactor(Process):
    """One life of one compactor process."""

    tables: SimTables
    runner: SimRunner
    runtime: Runtime
    stack: AsyncExitStack
    working: bool = False
    stopping: bool = False

    def reconnect(self) -> None:
        Process.reconnect(self)  # A class with slots is made twice: `super` would name the first.
        self.tables.line.cut_until_s = self.runner.cut_until_s = 0.0


class LocklessPipeline(Pipeline):
    """A pipeline whose locks do nothing: records, marks and versions must do without them."""

    async def _lock(self, stream: int) -> bool:
        return True

    async def _table_lock(self, key: str) -> bool:
        return False


class OrderedPaths(set[str]):
    """Paths whose difference to others is in order."""

    def __sub__(self, others: AbstractSet[object]) -> OrderedPaths:
        return OrderedPaths(super().__sub__(others))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))


class OrderedOrphans(OrphanFiles):
    """Deletes in the order of paths: a set of strings has another order in every process."""

    async def _old_files(self) -> AsyncIterator[tuple[str, set[str]]]:
        async for topic, old in super()._old_files():
            yield topic, OrderedPaths(old)


class Compactors(Processes[Compactor]):
    """All compactors over the shared stores and the catalog."""

    def __init__(
        self,
        loop: SimLoop,
        scenario: Scenario,
        rates: Rates,
        journal: Journal,
        state: SharedState,
        objects: SharedObjects,
        catalog: SharedCatalog,
    ) -> None:
        super().__init__(loop, journal)
        assert scenario.tables is not None
        self._scenario = scenario
        self._tables_scenario = scenario.tables
        self._settings = scenario.tables.settings()
        """Of those that are started from now on."""
        self._rates = rates
        self._state = state
        self._objects = objects
        self._catalog = catalog
        self.world = Context()
        """The context of what belongs to no compactor."""
        self.on_step: Callable[[Compactor, str], None] = lambda compactor, step: None
        """Called at each step of a task's saga."""
        self.on_put: Callable[[Compactor, str], None] = lambda compactor, key: None
        """Called before each put to the metadata store."""
        self.on_commit: Callable[[Compactor], None] = lambda compactor: None
        """Called before each commit to a table."""

    async def rest(self) -> None:
        """Stop all; one goes on, in a quiet way, to collect what is left."""
        for compactor in self.alive():
            await self.stop(compactor)
        self._settings = self._tables_scenario.settings(resting=True)
        self.start(1)

    def start(self, number: int) -> None:
        """Begin a new life of a compactor."""
        if number in self.present and not self.present[number].node.dead:
            return
        self._lives += 1
        name = f"compactor-{number}"
        chance = Chance(self._scenario.seed, f"{name}/life-{self._lives}")
        node = self._loop.node(name)
        skew_ms = self._scenario.skew_ms_max
        clock = SimClock(self._loop, chance.randint(-skew_ms, skew_ms))
        runtime = Runtime(clock, chance.child("product"), InlineOffload())
        rates = self._rates
        store = SimStore(
            self._loop,
            node,
            runtime,
            self._state,
            rates,
            chance.child("metadata"),
            eager_watch=self._scenario.eager_watch,
            of_compactor=True,
        )
        compactor = Compactor(
            number,
            node,
            clock,
            store,
            SimObjects(self._loop, node, self._objects, rates, chance.child("objects")),
            SimTables(
                self._loop,
                node,
                self._catalog,
                rates,
                chance.child("catalog"),
                split_by_day=self._tables_scenario.split_by_day,
            ),
            SimRunner(self._loop, node, self._objects, rates, chance.child("runner")),
            runtime,
            AsyncExitStack(),
        )
        store.on_put = lambda key: self.on_put(compactor, key)
        compactor.tables.on_commit = lambda: self.on_commit(compactor)
        self.present[number] = compactor
        self._journal.note(f"start {name}")
        self._loop.create_task(self._boot(compactor), context=node.context)

    async def _boot(self, compactor: Compactor) -> None:
        """Start the compactor's parts, again and again as a supervisor would, and let it work."""
        while True:
            try:
                async with AsyncExitStack() as stack:
                    service = await self._open(compactor, stack)
                    compactor.stack = stack.pop_all()
                break
            except MetadataError as error:
                self._journal.note(f"start of {compactor.name} failed: {error}")
                await asyncio.sleep(START_AGAIN_S)
            except Exception as error:  # noqa: BLE001 - a start must not fail in any other way
                self._journal.fail(f"the start of {compactor.name} broke: {error!r}")
                return
        compactor.working = True
        self._journal.note(f"ready {compactor.name}")
        working = asyncio.ensure_future(service.run())
        compactor.stack.push_async_callback(_end, working)

    async def _open(self, compactor: Compactor, stack: AsyncExitStack) -> PipelineService:
        """As `Compactor._start` of the product does it."""
        store, runtime, metrics = compactor.store, compactor.runtime, Metrics()
        topics = TopicCatalog(store, runtime, TopicDefaults(), lambda: ())
        await topics.start()
        stack.push_async_callback(topics.close)
        kind = Pipeline if self._tables_scenario.locks else LocklessPipeline
        pipeline = kind(
            store,
            topics,
            compactor.tables,
            compactor.runner,
            ProducerStates(store, runtime, PRODUCER_EXPIRY_MS).save,
            lambda path: f"simulated://{path}",
            runtime,
            self._settings,
            lambda step: self.on_step(compactor, step),
        )
        stack.push_async_callback(pipeline.close)
        jobs = self._upkeep_jobs(compactor, topics, pipeline, metrics)
        upkeep = GcRunner(jobs, store, runtime, metrics)
        upkeep.start()
        stack.push_async_callback(upkeep.close)
        return PipelineService(
            pipeline,
            compactor.runner,
            runtime,
            self._settings,
            metrics,
            before_round=lambda: reach_level(store),
        )

    def _upkeep_jobs(
        self, compactor: Compactor, topics: Topics, pipeline: Pipeline, metrics: Metrics
    ) -> list[Job]:
        """As `Compactor._upkeep_jobs` of the product does it."""
        store, objects, tables = compactor.store, compactor.objects, compactor.tables
        runtime, settings = compactor.runtime, self._settings
        interval_ms = settings.maintenance_interval_ms
        orphan_interval_ms = max(interval_ms, settings.orphan_ttl_ms // ORPHAN_LOOKS)
        upkeep = TableUpkeep(store, topics, tables, pipeline.publisher, runtime, settings)
        files = FileCollector(store, objects, tables, runtime, metrics)
        orphans = OrderedOrphans(store, objects, topics, tables, runtime, settings, metrics)
        jobs = [
            Job("tables", upkeep, interval_ms),
            Job("parquet", files, interval_ms),
            Job("parquet-orphans", orphans, orphan_interval_ms),
        ]
        if self._tables_scenario.drops_tables:
            dropped = DeletedTables(store, tables, runtime, settings)
            jobs.append(Job("deleted-tables", dropped, interval_ms))
        return jobs

    async def stop(self, compactor: Compactor) -> None:
        """Stop a compactor gracefully and wait for it; a killed one is not waited for."""
        if compactor.stopping or not compactor.working:
            return
        compactor.stopping, compactor.working = True, False
        self._journal.note(f"stop {compactor.name}")
        stopped = self._loop.create_future()
        self._loop.create_task(self._stop(compactor, stopped), context=compactor.node.context)
        while not stopped.done() and not compactor.node.dead:
            await asyncio.wait([stopped], timeout=1.0)
        if not compactor.node.dead:
            self.kill(compactor)

    async def _stop(self, compactor: Compactor, stopped: asyncio.Future[None]) -> None:
        try:
            await compactor.stack.aclose()
        except MetadataError as error:
            self._journal.note(f"stop of {compactor.name} failed: {error}")
        except Exception as error:  # noqa: BLE001 - a stop must not fail in any other way
            self._journal.fail(f"the stop of {compactor.name} broke: {error!r}")
        stopped.set_result(None)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
