"""What one seed is about: the cluster's size and settings, who works on it, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.group_scenario import GroupScenario, draw_groups, for_groups
from tests.faults.simulation.rates import NetworkRates, Rates, StoreRates, WatchRates
from tests.faults.simulation.table_scenario import (
    HOUR_S,
    SLOWLY_MS,
    TableScenario,
    catalog_rates,
    draw_tables,
    runner_rates,
    task_rates,
)

from towpath.core import CoreSettings
from towpath.gc.settings import GcSettings
from towpath.groups.settings import GroupSettings
from towpath.kafka.services import KafkaSettings
from towpath.log.object.settings import ObjectLogSettings
from towpath.topics.effective import TopicDefaults

LOAD_S = 6.0
"""How long clients work and faults happen, about."""
JUMP_MS_MAX = 4_000
"""How wrong a wall clock may become. Twice this, and what is still under way, is less than the time
after which a reservation counts as abandoned; in production that time is a day."""
LEASE_TTL_MS = 30_000
"""The time to live of the collectors' leases, which is no setting."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is drawn before a run starts."""

    seed: int
    brokers: int
    topic_partitions: tuple[int, ...]
    plain_producers: int
    idempotent_producers: int
    consumers: int
    batches_per_producer: int
    window_batches: int
    """Batches that an idempotent producer has in flight."""
    request_timeout_s: float
    produce_timeout_ms: int
    eager_watch: bool
    skew_ms_max: int
    linger_ms: int
    flush_max_bytes: int
    max_inflight_flushes: int
    max_buffer_bytes: int
    range_cache_bytes: int
    index_cache_bytes: int
    wal_orphan_ttl_ms: int
    wal_gc_grace_ms: int
    gc_interval_ms: int
    retention_interval_ms: int
    session_ttl_ms: int
    deletes_topics: bool
    removes_records: bool
    """Whether the administrator deletes records and shortens retention."""
    disasters: tuple[str, ...]
    """Kinds of events that befall whole brokers; see `nemesis.py`."""
    disaster_count: int
    tables: TableScenario | None
    """The compactors and what befalls them; None without any."""
    groups: GroupScenario | None
    """The groups and what befalls them; None without any. No run has both tables and groups."""

    def core_settings(self, broker_id: int) -> CoreSettings:
        """The settings of one broker."""
        return CoreSettings(
            topics=TopicDefaults(),
            log=ObjectLogSettings(
                broker_id=broker_id,
                max_buffer_bytes=self.max_buffer_bytes,
                flush_max_bytes=self.flush_max_bytes,
                linger_ms=self.linger_ms,
                max_inflight_flushes=self.max_inflight_flushes,
                range_cache_bytes=self.range_cache_bytes,
                index_cache_bytes=self.index_cache_bytes,
                wal_orphan_ttl_ms=self.wal_orphan_ttl_ms,
            ),
            gc=GcSettings(
                wal_gc_grace_ms=self.wal_gc_grace_ms,
                wal_orphan_ttl_ms=self.wal_orphan_ttl_ms,
                gc_interval_ms=self.gc_interval_ms,
                retention_interval_ms=self.retention_interval_ms,
            ),
            kafka=KafkaSettings(auto_create_topics_enable=False),
            session_ttl_ms=self.session_ttl_ms,
            drain_ms=2_000,
            broker_configs={},
            groups=GroupSettings() if self.groups is None else self.groups.settings(),
        )

    @property
    def settling_s(self) -> float:
        """After this time without faults nothing may be left that has no owner.

        A dead broker's lease ends, a marker grows old (by a clock that was wrong) and is condemned,
        its grace passes, and each of these steps waits for a round of its collector.
        """
        graces_ms = self.wal_orphan_ttl_ms + 2 * self.wal_gc_grace_ms
        wrong_ms = max(self.skew_ms_max, JUMP_MS_MAX if "clock-jump" in self.disasters else 0)
        rounds_ms = 10 * self.gc_interval_ms + 4 * self.retention_interval_ms
        of_tables_ms = 0.0 if self.tables is None else 1000 * self.tables.keeping_s
        waits_ms = max(graces_ms + rounds_ms, of_tables_ms)
        return (LEASE_TTL_MS + waits_ms + 3 * wrong_ms) / 1000


def draw(seed: int) -> tuple[Scenario, Rates]:
    """The scenario of a seed and its rates of faults."""
    chance = Chance(seed, "scenario")
    brokers = chance.pick(1, 2, 2, 3)
    tables = draw_tables(seed)
    scenario = Scenario(
        seed=seed,
        brokers=brokers,
        topic_partitions=tuple(chance.pick(1, 1, 2) for _ in range(chance.pick(1, 2))),
        plain_producers=chance.pick(0, 1, 1, 2),
        idempotent_producers=chance.pick(1, 1, 2),
        consumers=chance.pick(1, 2),
        batches_per_producer=chance.randint(5, 12),
        window_batches=chance.pick(1, 2, 5),
        request_timeout_s=chance.pick(1.0, 2.5),
        produce_timeout_ms=chance.pick(300, 2_000, 30_000),
        eager_watch=chance.pick(True, False),
        skew_ms_max=chance.pick(0, 200, 1_500),
        linger_ms=chance.pick(0, 0, 5, 60),
        flush_max_bytes=chance.pick(150, 1_000, 8 << 20),
        max_inflight_flushes=chance.pick(1, 2, 4),
        max_buffer_bytes=chance.pick(1_000, 64 << 20, 64 << 20),
        range_cache_bytes=chance.pick(0, 2_000, 128 << 20),
        index_cache_bytes=chance.pick(0, 4_000, 32 << 20),
        wal_orphan_ttl_ms=chance.pick(12_000, 16_000),
        wal_gc_grace_ms=chance.pick(300, 1_000),
        gc_interval_ms=chance.pick(800, 2_000),
        retention_interval_ms=chance.pick(1_000, 4_000),
        session_ttl_ms=chance.pick(1_000, 3_000),
        deletes_topics=chance.happens(0.25),
        removes_records=chance.happens(0.5),
        disasters=tuple(chance.some_of(DISASTERS, 0.4)),
        disaster_count=chance.pick(0, 1, 2, 4),
        tables=tables,
        groups=None if tables is not None else draw_groups(seed),
    )
    return for_groups(_for_tables(scenario)), _rates(chance, Chance(seed, "table-rates"))


def _for_tables(scenario: Scenario) -> Scenario:
    """More to compact where there are tables, and fewer rounds where an hour has to pass."""
    tables = scenario.tables
    if tables is None:
        return scenario
    if tables.long_outage_s < HOUR_S:
        return replace(scenario, batches_per_producer=2 * scenario.batches_per_producer)
    return replace(
        scenario,
        brokers=1,
        gc_interval_ms=SLOWLY_MS,
        retention_interval_ms=SLOWLY_MS,
        session_ttl_ms=SLOWLY_MS,
    )


DISASTERS = (
    "pause",
    "long-pause",
    "pause-in-flush",
    "pause-in-collection",
    "crash",
    "crash-in-flush",
    "restart",
    "clock-jump",
    "lost-session",
    "lost-feed",
    "metadata-outage",
    "objects-outage",
    "partition",
)


def _rates(chance: Chance, of_tables: Chance) -> Rates:
    """Each kind of fault is absent from many seeds, so that what is left is seen alone."""

    def rate(most: float) -> float:
        return chance.pick(0.0, 0.0, most / 4, most)

    return Rates(
        metadata=StoreRates(
            refused=rate(0.05),
            lost=rate(0.05),
            dropped=rate(0.03),
            late=rate(0.03),
            slow=rate(0.05),
            slow_s=chance.pick(0.2, 2.0),
        ),
        tasks=task_rates(of_tables),
        objects=StoreRates(
            refused=rate(0.1),
            lost=rate(0.1),
            dropped=rate(0.05),
            late=rate(0.05),
            slow=rate(0.1),
            slow_s=chance.pick(0.2, 2.0),
        ),
        watch=WatchRates(slow=rate(0.2), slow_s=chance.pick(0.3, 1.5), lost=rate(0.1)),
        network=NetworkRates(
            split=rate(0.3),
            trickle=rate(0.05),
            stall=rate(0.05),
            reset=rate(0.04),
            window_bytes=chance.pick(400, 1 << 20),
        ),
        catalog=catalog_rates(of_tables),
        runner=runner_rates(of_tables),
    )
