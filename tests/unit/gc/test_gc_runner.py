"""The loop around the collectors: leases, failures, pauses, and the end."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.unit.gc.helpers_gc import SETTINGS, StoredTopics, World

from towpath.cluster.leases import Leases
from towpath.gc.runner import LEASES_PREFIX, GcRunner, Job, standard_jobs
from towpath.gc.summary import Summary
from towpath.metadata.keys import topics
from towpath.metadata.memory import MemoryStore
from towpath.metadata.store import StoreUnavailable
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime, SystemClock

PATIENCE_S = 20


class Rounds:
    """A collector that plays prepared rounds, then empty ones, and tells when it was called."""

    def __init__(self, *prepared: Summary | Exception) -> None:
        self.prepared = list(prepared)
        self.count = 0
        self.called = asyncio.Condition()

    async def run_once(self) -> Summary:
        async with self.called:
            self.count += 1
            self.called.notify_all()
        result = self.prepared.pop(0) if self.prepared else Summary()
        if isinstance(result, Exception):
            raise result
        return result

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self.called:
            await self.called.wait_for(lambda: self.count >= count)


def runtime(seed: int) -> Runtime:
    return Runtime(SystemClock(), random.Random(seed), InlineOffload())


def failures(metrics: Metrics, name: str) -> float:
    found = metrics.registry.get_sample_value("towpath_gc_failures_total", {"collector": name})
    return found or 0.0


@pytest.fixture
async def store() -> MemoryStore:
    return MemoryStore(runtime(1))


async def test_a_failed_round_is_counted_and_the_next_comes(store: MemoryStore) -> None:
    metrics = Metrics()
    collector = Rounds(RuntimeError("broken"), StoreUnavailable("away"))
    runner = GcRunner([Job("wal", collector, 1)], store, runtime(1), metrics)
    runner.start()
    await collector.reach(4)
    await runner.close()
    assert failures(metrics, "wal") == 2
    assert await store.scan(LEASES_PREFIX, LEASES_PREFIX + "~") == []


async def test_a_job_that_fails_does_not_hold_up_the_others(store: MemoryStore) -> None:
    bad, good = Rounds(*[RuntimeError("broken")] * 1000), Rounds()
    jobs = [Job("bad", bad, 1), Job("good", good, 1)]
    runner = GcRunner(jobs, store, runtime(1), Metrics())
    runner.start()
    await good.reach(3)
    await bad.reach(3)
    await runner.close()


async def test_a_round_that_left_work_is_followed_soon(store: MemoryStore) -> None:
    collector = Rounds(Summary(1, 1, more=True), Summary(1, 1, more=True))
    day_ms = 86_400_000
    runner = GcRunner([Job("wal", collector, day_ms)], store, runtime(1), Metrics())
    pauses: list[float] = []
    asleep = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            asleep.set()
            await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("towpath.gc.runner.asyncio.sleep", sleep)
        runner.start()
        await asyncio.wait_for(asleep.wait(), PATIENCE_S)
        await runner.close()
    first, second, third, last = pauses
    assert day_ms / 2000 <= min(first, last)
    assert max(first, last) <= 1.5 * day_ms / 1000
    assert max(second, third) < 1


async def test_one_broker_works_until_it_fails_or_ends(store: MemoryStore) -> None:
    first, second = Rounds(), Rounds()
    other = MemoryStore(runtime(2), store.state)
    runners = [
        GcRunner([], store, runtime(1), Metrics()),
        GcRunner([], other, runtime(2), Metrics()),
    ]
    jobs = [Job("wal", first, 1), Job("wal", second, 1)]
    for _ in range(3):
        assert await runners[0].run_round(jobs[0]) == Summary()
        assert await runners[1].run_round(jobs[1]) is None
    assert (first.count, second.count) == (3, 0)
    first.prepared.append(RuntimeError("broken"))
    assert await runners[0].run_round(jobs[0]) is None
    assert await runners[1].run_round(jobs[1]) == Summary()
    assert await runners[0].run_round(jobs[0]) is None
    await runners[1].close()
    assert await runners[0].run_round(jobs[0]) == Summary()
    await runners[0].close()


async def test_leases_are_per_job_and_end_with_the_session(store: MemoryStore) -> None:
    mine, theirs = Leases(store, runtime(1)), Leases(store, runtime(2))
    assert await mine.hold("a")
    assert await mine.hold("a")
    assert await theirs.hold("b")
    assert not await theirs.hold("a")
    await theirs.release("a")  # Not theirs: nothing happens.
    assert not await theirs.hold("a")
    await mine.close()
    assert await theirs.hold("a")
    assert not await mine.hold("a")
    await mine.close()
    await theirs.close()


async def test_the_standard_jobs_collect_a_whole_life() -> None:
    world = World()
    await world.create_topic(1)
    stream = topics.stream_id(1, 0)
    await world.append([stream])
    await world.delete_topic(1)
    jobs = standard_jobs(
        world.store,
        world.objects,
        StoredTopics(world.store, {}),
        world.save_producers,
        world.runtime,
        SETTINGS,
        world.metrics,
    )
    assert [job.name for job in jobs] == ["retention", "deleted-topics", "wal", "orphans"]
    runner = GcRunner(jobs, world.store, world.runtime, world.metrics)
    for _ in range(5):
        for job in jobs:
            assert await runner.run_round(job) is not None
        world.clock.ms += SETTINGS.wal_orphan_ttl_ms
    await runner.close()
    assert await world.object_paths() == set()
    assert await world.keys("/") == []
