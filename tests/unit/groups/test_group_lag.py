"""The lag of groups for metrics: how far behind, how old, and by which broker it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs
from tests.unit.groups.offsets.helpers_offsets import (
    START_MS,
    OffsetsRig,
    classic_group,
    offsets_rig,
)
from tests.unit.helpers_topics import FaultyStore
from tests.unit.log_helpers import batch

from towpath.groups import lag as lag_module
from towpath.groups.lag import GroupLag, Measured, PartitionLag
from towpath.log.object.log import ObjectLog
from towpath.log.object.settings import ObjectLogSettings
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import StoreUnavailable
from towpath.objects.memory import MemoryObjectStore
from towpath.observe.group_lag import GroupLagMetrics
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime


class Watched:
    """A broker of the offsets' rig with a log, and its lag."""

    def __init__(self, rig: OffsetsRig, objects: MemoryObjectStore) -> None:
        self.rig = rig
        self.log = ObjectLog(
            rig.store, objects, inline_runtime(), ObjectLogSettings(broker_id=1), Metrics()
        )
        self.lag = GroupLag(rig.store, rig.groups, rig.catalog, self.log, rig.cluster, rig.clock)
        registry = CollectorRegistry()
        registry.register(GroupLagMetrics(lambda: self.lag.last, rig.clock.now_ms))
        self.registry = registry

    async def append(self, topic: str, partition: int, timestamp_ms: int, count: int = 1) -> None:
        found = self.rig.catalog.get(topic)
        assert found is not None
        values = [b"x"] * count
        await self.log.append(found.stream(partition), batch(*values, timestamp_ms=timestamp_ms))

    async def text(self) -> list[str]:
        """The samples of a scrape that measures anew."""
        self.lag.last = await self.lag.measure()
        lines = generate_latest(self.registry).decode().splitlines()
        return [line for line in lines if not line.startswith("#")]


@asynccontextmanager
async def watched(store: FaultyStore | None = None, broker_id: int = 1) -> AsyncIterator[Watched]:
    async with offsets_rig(store, broker_id=broker_id) as rig:
        made = Watched(rig, MemoryObjectStore(inline_runtime()))
        try:
            yield made
        finally:
            await made.lag.close()
            await made.log.close()


async def test_lag_in_records_and_in_time() -> None:
    async with watched() as broker:
        for second in range(4):
            await broker.append("a", 0, START_MS + 1_000 * second)
        await broker.append("b", 0, START_MS, count=3)
        await broker.rig.commit("g", {("a", 0): 1, ("a", 1): 0, ("b", 0): 3})
        broker.rig.clock.wall_ms = START_MS + 61_000
        assert await broker.text() == [
            'towpath_groups{state="Empty",type="classic"} 1.0',
            'towpath_group_lag_records{group="g",partition="0",topic="a"} 3.0',
            'towpath_group_lag_records{group="g",partition="1",topic="a"} 0.0',
            'towpath_group_lag_records{group="g",partition="0",topic="b"} 0.0',
            'towpath_group_lag_seconds{group="g",partition="0",topic="a"} 60.0',
            'towpath_group_lag_seconds{group="g",partition="1",topic="a"} 0.0',
            'towpath_group_lag_seconds{group="g",partition="0",topic="b"} 0.0',
        ]
        await broker.rig.commit("g", {("a", 0): 4})
        assert 'towpath_group_lag_seconds{group="g",partition="0",topic="a"} 0.0' in (
            await broker.text()
        )


async def test_records_that_left_the_log_count_but_are_not_waited_for() -> None:
    async with watched() as broker:
        for second in range(4):
            await broker.append("a", 0, START_MS + 1_000 * second)
        await broker.rig.commit("g", {("a", 0): 0})
        topic = broker.rig.catalog.get("a")
        assert topic is not None
        before = await broker.lag.measure()
        assert before.lags == [PartitionLag("g", "a", 0, 4, START_MS)]
        await broker.log.delete_before(topic.stream(0), 2)
        assert (await broker.lag.measure()).lags == [PartitionLag("g", "a", 0, 4, START_MS + 2_000)]
        await broker.rig.commit("g", {("a", 0): 99})
        assert (await broker.lag.measure()).lags == [PartitionLag("g", "a", 0, 0, None)]


async def test_a_group_that_stands_still_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with watched() as broker:
        await broker.append("a", 0, START_MS)
        await broker.rig.commit("g", {("a", 0): 0})
        first = await broker.lag.measure()
        monkeypatch.setattr(broker.log, "timestamp_at", None)
        assert await broker.lag.measure() == first


async def test_one_broker_tells_about_a_group() -> None:
    store = FaultyStore()
    async with watched(store, 1) as one, watched(store, 2) as two:
        await one.rig.cluster.refresh()
        names = [f"g{number}" for number in range(20)]
        for name in names:
            await one.rig.commit(name, {("a", 0): 0})
        told = [{lag.group_id for lag in (await b.lag.measure()).lags} for b in (one, two)]
        assert sorted(told[0] | told[1]) == sorted(names)
        assert not told[0] & told[1]
        assert all(told), "the groups are divided"
        # Whoever has the lease tells, whatever the name hashes to.
        for broker, other in ((one, two), (two, one)):
            group_id = min(told[0 if broker is two else 1])
            leased = asyncio.Event()
            store.watch(keys.lease(group_id), lambda _, event=leased: event.set())  # type: ignore[misc]
            await broker.rig.set_group(group_id, classic_group(1, "m"))
            await leased.wait()
            states = (await broker.lag.measure()).states
            assert states["classic", "Stable"] == 1
            assert group_id not in {lag.group_id for lag in (await other.lag.measure()).lags}


async def test_the_number_of_partitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "PARTITIONS_MAX", 4)
    async with watched() as broker:
        for name in ("g1", "g2", "x" * 256):
            await broker.rig.commit(name, {("a", 0): 0, ("a", 1): 0, ("a", 2): 0})
        with capture_logs() as logs:
            measured = [await broker.lag.measure() for _ in range(3)]
        for each in measured:
            assert [(lag.group_id, lag.partition) for lag in each.lags] == [
                *(("g1", number) for number in range(3)),
                ("g2", 0),
            ]
            assert each.states == {("classic", "Empty"): 3}
        said = [(line["log_level"], line.get("left_out")) for line in logs]
        assert said == [("warning", 5)], "once"


async def test_deleted_groups_and_topics_leave_nothing() -> None:
    async with watched() as broker:
        await broker.rig.commit("g1", {("a", 0): 0, ("b", 0): 0})
        await broker.rig.commit("g2", {("b", 0): 0})
        topic = broker.rig.catalog.get("b")
        assert topic is not None
        await broker.rig.catalog.delete(topic)
        await broker.rig.set_group("g2", None)
        measured = await broker.lag.measure()
        assert [(lag.group_id, lag.topic) for lag in measured.lags] == [("g1", "a")]
        assert measured.states == {("classic", "Empty"): 1}


async def test_a_damaged_group_does_not_hide_the_others() -> None:
    async with watched() as broker:
        await broker.rig.commit("g1", {("a", 0): 0})
        await broker.rig.commit("g2", {("a", 0): 0})
        await broker.rig.store.put(keys.offset("g1", "a", 1), b"{}")
        await broker.rig.store.put(keys.state("g0"), b"{}")
        assert [lag.group_id for lag in (await broker.lag.measure()).lags] == ["g2"]


async def test_a_scrape_measures_and_a_failure_keeps_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag_module, "FRESH_MS", 0)
    async with watched() as broker:
        await broker.append("a", 0, START_MS)
        await broker.rig.commit("g", {("a", 0): 0})
        assert broker.lag.last == Measured()
        await asyncio.gather(*(broker.lag.refresh() for _ in range(3)))
        known = broker.lag.last
        assert [lag.records for lag in known.lags] == [1]

        async def fail() -> Measured:
            raise StoreUnavailable("gone")

        monkeypatch.setattr(broker.lag, "measure", fail)
        await broker.lag.refresh()
        assert broker.lag.last is known


async def test_a_slow_measurement_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "WAIT_MS", 1)
    async with watched() as broker:
        gate = asyncio.Event()

        async def slow() -> Measured:
            await gate.wait()
            return Measured(states={("classic", "Empty"): 1})

        monkeypatch.setattr(broker.lag, "measure", slow)
        await broker.lag.refresh()
        assert broker.lag.last == Measured()
        gate.set()
        monkeypatch.setattr(lag_module, "WAIT_MS", 60_000)
        await broker.lag.refresh()
        assert broker.lag.last == Measured(states={("classic", "Empty"): 1})
