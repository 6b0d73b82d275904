"""What befalls compactors, the catalog and tables: pauses beyond locks, crashes at every step of a
task, outages, foreign writers, dropped tables."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.faults.simulation.catalog import SharedCatalog
from tests.faults.simulation.chance import Chance
from tests.faults.simulation.compactors import Compactor, Compactors
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.ledger import TASKS
from tests.faults.simulation.loop import SimLoop
from tests.faults.simulation.scenario import JUMP_MS_MAX, LOAD_S, Scenario
from tests.faults.simulation.state import SharedState

from towpath.lakehouse.plan import JobKind
from towpath.metadata.keys import streams, wal
from towpath.metadata.keys.compaction import TaskRecord

STEP_WAIT_S = 3.0
"""How long a fault waits for a compactor to take the step at which it strikes."""
AT_REWRITE = 0.4
"""How often a fault in the middle of something waits for a rewrite."""
COMMIT = "commit"
"""The step at which a commit leaves for the catalog."""
SAGA_STEPS = (
    "compaction-before-created",
    "compaction-created",
    "compaction-before-parquet-written",
    "compaction-parquet-written",
    "compaction-before-iceberg-committed",
    "compaction-iceberg-applied",
    "compaction-iceberg-committed",
    "compaction-index-put",
    "compaction-before-index-swapped",
    "compaction-index-swapped",
    "compaction-before-wal-gc-ready",
    "compaction-wal-gc-ready",
    "compaction-done",
)
STEPS_TO_COMMIT = SAGA_STEPS[1:6]
"""Where a table that somebody else changes makes a difference."""
PUTS = (wal.DEREFS_PREFIX, streams.STREAMS_PREFIX)
"""Puts after which a compactor is paused: before it has an answer, and before it goes on."""


class TableNemesis:
    """Carries out the disasters of the tables' scenario one after the other."""

    def __init__(
        self,
        loop: SimLoop,
        scenario: Scenario,
        compactors: Compactors,
        catalog: SharedCatalog,
        state: SharedState,
        journal: Journal,
    ) -> None:
        assert scenario.tables is not None
        self._loop = loop
        self._scenario = scenario.tables
        self._compactors = compactors
        self._catalog = catalog
        self._state = state
        self._journal = journal
        self._chance = Chance(scenario.seed, "table-nemesis")
        self._armed: tuple[str, str] | None = None
        """A step, or the start of a key, and what shall happen there."""
        self._at_rewrite = False
        """Whether it shall happen only while files are being rewritten."""
        self._struck = asyncio.Event()
        self.counts: Counter[str] = Counter()
        compactors.on_step = self._on_step
        compactors.on_put = lambda one, key: self._on_leaving(one, key)
        compactors.on_commit = lambda one: self._on_leaving(one, COMMIT)

    async def run(self) -> None:
        """All disasters, spread over the load."""
        if self._scenario.long_outage_s:
            self._loop.call_later(LOAD_S / 2, self._lose_catalog, self._scenario.long_outage_s)
        count = self._scenario.disaster_count if self._scenario.disasters else 0
        for _ in range(count):
            await asyncio.sleep(self._chance.random() * LOAD_S / max(2, count / 2))
            compactors = [one for one in self._compactors.alive() if one.working]
            if compactors:
                await self._strike(
                    self._chance.pick(*self._scenario.disasters), self._chance.pick(*compactors)
                )
        self._armed = None
        await asyncio.sleep(self._compactors.paused_for_s())

    def heal(self) -> None:
        """Undo what can be undone; an outage of the catalog that is a long one goes on."""
        self._armed = None
        for number in range(1, self._scenario.compactors + 1):
            self._compactors.start(number)
        for compactor in self._compactors.alive():
            compactor.clock.skew_ms = 0
            compactor.reconnect()
            self._compactors.resume(compactor)

    async def wait_for_catalog(self) -> None:
        """Until a long outage is over."""
        await asyncio.sleep(max(0.0, self._catalog.gone_until_s - self._loop.time()))

    async def _strike(self, disaster: str, compactor: Compactor) -> None:
        self._journal.note(f"disaster {disaster} at {compactor.name}")
        self.counts[disaster] += 1
        chance = self._chance
        if disaster == "pause":
            self._compactors.pause(compactor, chance.random() * self._scenario.pause_s_max)
        elif disaster in ("pause-in-saga", "crash-in-saga"):
            await self._strike_at(chance.pick(*SAGA_STEPS), disaster)
        elif disaster in ("foreign-commit-in-saga", "drop-table-in-saga"):
            await self._strike_at(chance.pick(*STEPS_TO_COMMIT), disaster)
        elif disaster == "pause-after-put":
            await self._strike_at(chance.pick(*PUTS), disaster)
        elif disaster == "pause-after-commit":
            await self._strike_at(COMMIT, disaster)
        elif disaster == "crash":
            self._kill(compactor)
        elif disaster == "restart":
            await self._compactors.stop(compactor)
            self._compactors.start(compactor.number)
        elif disaster == "clock-jump":
            compactor.clock.skew_ms = chance.randint(-JUMP_MS_MAX, JUMP_MS_MAX)
        elif disaster == "metadata-outage":
            compactor.store.line.cut_until_s = self._soon()
        elif disaster == "objects-outage":
            compactor.objects.line.cut_until_s = compactor.runner.cut_until_s = self._soon()
        elif disaster == "catalog-outage":
            compactor.tables.line.cut_until_s = self._soon()
        else:
            self._touch_table(disaster, set(self._catalog.tables))

    def _touch_table(self, disaster: str, names: set[str]) -> None:
        """Somebody else's work on one of these tables, if there is one."""
        names &= set(self._catalog.tables)
        if not names:
            return
        name = self._chance.pick(*sorted(names))
        self._journal.note(f"{disaster} {name}")
        self.counts[f"done {disaster}"] += 1
        if disaster == "foreign-commit":
            self._catalog.foreign_commit(name)
        else:
            assert disaster == "drop-table"
            self._catalog.drop(name)

    def _lose_catalog(self, seconds: float) -> None:
        self._journal.note(f"the catalog is gone for {seconds} s")
        self._catalog.gone_until_s = self._loop.time() + seconds

    def _soon(self) -> float:
        return self._loop.time() + self._chance.uniform(0.2, 3.0)

    def _kill(self, compactor: Compactor) -> None:
        self._compactors.kill(compactor)
        self._loop.call_later(self._chance.random() * 2.0, self._compactors.start, compactor.number)

    # Faults in the middle of something

    async def _strike_at(self, step: str, disaster: str) -> None:
        self._struck.clear()
        self._armed = (step, disaster)
        self._at_rewrite = self._chance.happens(AT_REWRITE)
        try:
            async with asyncio.timeout(STEP_WAIT_S):
                await self._struck.wait()
        except TimeoutError:
            self._armed = None

    def _disarm(self, compactor: Compactor, step: str) -> str | None:
        """The disaster that is to happen at this step, once."""
        if self._armed is None or not step.startswith(self._armed[0]) or compactor.node.dead:
            return None
        if self._at_rewrite and not self._tasks():
            return None
        disaster, self._armed = self._armed[1], None
        self._struck.set()
        self._journal.note(f"{disaster} {step} at {compactor.name}")
        return disaster

    def _tasks(self) -> list[TaskRecord]:
        """The tasks under way; of rewrites only, if those are waited for."""
        rows = [self._state.get(key) for key in self._state.keys_under(streams.STREAMS_PREFIX)]
        tasks = [
            TaskRecord.decode(row.value) for row in rows if row is not None and TASKS in row.key
        ]
        if not self._at_rewrite:
            return tasks
        return [task for task in tasks if task.kind == JobKind.REWRITE.value]

    def _on_step(self, compactor: Compactor, step: str) -> None:
        """In the compactor's own step: what it starts from here on must not happen yet, or ever."""
        disaster = self._disarm(compactor, step)
        if disaster in ("foreign-commit-in-saga", "drop-table-in-saga"):
            topics = {task.topic for task in self._tasks()}
            self._touch_table(disaster.removesuffix("-in-saga"), topics)
        elif disaster == "crash-in-saga":
            self._loop.call_soon(self._after_kill, compactor, context=self._compactors.world)
            compactor.node.dead = True
        elif disaster is not None and not compactor.node.paused:
            self._loop.call_soon(
                self._compactors.resume_later,
                compactor,
                self._long_pause_s(),
                context=self._compactors.world,
            )
            compactor.node.paused = True

    def _on_leaving(self, compactor: Compactor, what: str) -> None:
        """What is about to leave does so in this step; then the compactor stops."""
        if self._disarm(compactor, what) is not None:
            self._loop.call_soon(
                self._compactors.pause,
                compactor,
                self._long_pause_s(),
                context=self._compactors.world,
            )

    def _long_pause_s(self) -> float:
        """Longer than a compactor keeps its locks."""
        lock_s = 1.1 * self._scenario.lock_ttl_ms / 1000
        return self._chance.uniform(lock_s, self._scenario.pause_s_max)

    def _after_kill(self, compactor: Compactor) -> None:
        compactor.node.dead = False
        self._kill(compactor)
