"""What a seed with tables is about: its compactors, their settings, and what befalls them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.rates import RunnerRates, StoreRates

from towpath.lakehouse.settings import PipelineSettings

SHARE = 1 / 4
"""How many of the seeds have compactors."""
HOUR_S = 3_600.0
SLOWLY_MS = 20_000
"""The pause between two rounds where an hour has to pass."""
PAUSE_MAX_MS = 45_000
"""How long the pipeline leaves a topic alone that keeps failing, with its jitter."""
REST_MS = 2_000
"""The pause between two rounds of everything once all is compacted."""
CLUSTER_PREFIX = "simulated"

VALUES_SHARE = 0.3
"""Of the runs with tables: how many have topics that declare what their values are."""
DISASTERS = (
    "pause",
    "pause-in-saga",
    "pause-in-saga",
    "pause-after-put",
    "pause-after-commit",
    "crash",
    "crash-in-saga",
    "crash-in-saga",
    "restart",
    "clock-jump",
    "metadata-outage",
    "objects-outage",
    "catalog-outage",
    "foreign-commit",
    "foreign-commit-in-saga",
    "drop-table",
    "drop-table-in-saga",
)


@dataclass(frozen=True, slots=True)
class History:
    """How much history tables keep, as `iceberg.maintenance.UpkeepSettings` has it. The current
    snapshot stays."""

    snapshots_min: int
    snapshots_max: int
    max_age_ms: int
    final_age_ms: int


@dataclass(frozen=True, slots=True)
class TableScenario:
    """Everything about tables that is drawn before a run starts."""

    compactors: int
    interval_ms: int
    wal_max_age_ms: int
    job_max_entries: int
    max_files_per_partition: int
    lock_ttl_ms: int
    file_gc_grace_ms: int
    orphan_ttl_ms: int
    """More than a job, a pause and wrong clocks take together; in production it is a day."""
    maintenance_interval_ms: int
    split_by_day: bool
    locks: bool
    """Without them every compactor believes that it holds every lock: they save work, no more."""
    drops_tables: bool
    """Whether the table of a deleted topic goes with it."""
    history: History
    disasters: tuple[str, ...]
    """Kinds of events that befall compactors, the catalog and tables; see `table_nemesis.py`."""
    disaster_count: int
    declares_values: bool
    """Whether topics say what their values are, one time or another."""
    long_outage_s: float
    """How long the catalog is gone from the middle of the load on; 0 if it is not."""

    def settings(self, *, resting: bool = False) -> PipelineSettings:
        """The settings of every compactor; of one that has nothing to do when `resting`."""
        interval_ms = REST_MS if resting else self.interval_ms
        maintenance_interval_ms = REST_MS if resting else self.maintenance_interval_ms
        return PipelineSettings(
            objects_url="memory://",
            cluster_prefix=CLUSTER_PREFIX,
            interval_ms=interval_ms,
            wal_max_age_ms=self.wal_max_age_ms,
            job_max_entries=self.job_max_entries,
            max_files_per_partition=self.max_files_per_partition,
            lock_ttl_ms=self.lock_ttl_ms,
            file_gc_grace_ms=self.file_gc_grace_ms,
            orphan_ttl_ms=self.orphan_ttl_ms,
            maintenance_interval_ms=maintenance_interval_ms,
            clean_interval_ms=2 * interval_ms,
        )

    @property
    def pause_s_max(self) -> float:
        """The longest pause of a compactor: beyond its locks, below what waits for the dead."""
        return 3 * self.lock_ttl_ms / 1000

    @property
    def compacting_s(self) -> float:
        """After this time without faults every record is in its table."""
        return (3 * PAUSE_MAX_MS + 3 * self.lock_ttl_ms + 50 * self.interval_ms) / 1000

    @property
    def keeping_s(self) -> float:
        """After this time what was replaced, and what nobody ever saw, is gone."""
        replaced_ms = self.history.final_age_ms + self.file_gc_grace_ms
        orphaned_ms = self.orphan_ttl_ms + 2 * max(REST_MS, self.orphan_ttl_ms // 4)
        return (max(replaced_ms, orphaned_ms) + 6 * REST_MS) / 1000


def draw_tables(seed: int) -> TableScenario | None:
    """The tables' part of a seed's scenario; None if it has none."""
    chance = Chance(seed, "tables")
    if not chance.happens(SHARE):
        return None
    drawn = TableScenario(
        compactors=chance.pick(1, 2, 2, 3),
        interval_ms=chance.pick(150, 400),
        wal_max_age_ms=chance.pick(50, 200, 700),
        job_max_entries=chance.pick(2, 3, 8),
        max_files_per_partition=chance.pick(2, 2, 3),
        lock_ttl_ms=chance.pick(1_000, 2_000),
        file_gc_grace_ms=chance.pick(200, 800),
        orphan_ttl_ms=chance.pick(22_000, 28_000),
        maintenance_interval_ms=chance.pick(600, 1_200),
        split_by_day=chance.happens(0.25),
        locks=chance.happens(0.9),
        drops_tables=chance.happens(0.7),
        history=History(
            snapshots_min=chance.pick(1, 2),
            snapshots_max=chance.pick(2, 4, 50),
            max_age_ms=chance.pick(200, 1_500),
            final_age_ms=chance.pick(2_000, 5_000),
        ),
        disasters=tuple(chance.some_of(DISASTERS, 0.4)),
        disaster_count=chance.pick(0, 3, 5, 8),
        # Of its own, so that it changes no other run.
        declares_values=Chance(seed, "value schemas").happens(VALUES_SHARE),
        long_outage_s=chance.pick(HOUR_S, 40.0, 40.0) if chance.happens(0.05) else 0.0,
    )
    if drawn.long_outage_s < HOUR_S:
        return drawn
    return replace(drawn, compactors=1, interval_ms=1_000, maintenance_interval_ms=SLOWLY_MS)


def catalog_rates(chance: Chance) -> StoreRates:
    """Faults of the calls to the catalog."""
    return StoreRates(
        refused=_rate(chance, 0.1),
        lost=_rate(chance, 0.15),
        dropped=_rate(chance, 0.1),
        late=_rate(chance, 0.15),
        slow=_rate(chance, 0.1),
        slow_s=chance.pick(0.2, 2.0),
        delay_s=0.02,
    )


def task_rates(chance: Chance) -> StoreRates:
    """Faults of a compactor's calls to the metadata store."""
    return StoreRates(
        refused=_rate(chance, 0.01),
        lost=_rate(chance, 0.02),
        dropped=_rate(chance, 0.01),
        late=_rate(chance, 0.02),
        slow=_rate(chance, 0.04),
        slow_s=chance.pick(0.2, 2.0),
    )


def runner_rates(chance: Chance) -> RunnerRates:
    """Faults of whoever runs the jobs."""
    return RunnerRates(
        unavailable=_rate(chance, 0.2),
        failed=_rate(chance, 0.2),
        lost=_rate(chance, 0.3),
        zombie=_rate(chance, 0.3),
        slow=_rate(chance, 0.2),
        slow_s=chance.pick(0.5, 4.0),
    )


def _rate(chance: Chance, most: float) -> float:
    return chance.pick(0.0, 0.0, most / 4, most)
