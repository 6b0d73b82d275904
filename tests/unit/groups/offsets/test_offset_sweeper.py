"""Which offsets expire and when, and which groups vanish."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.groups.offsets.helpers_offsets import (
    START_MS,
    OffsetsRig,
    classic_group,
    offsets_rig,
)
from tests.unit.helpers_topics import Fault, FaultyStore

from towpath.gc.summary import Summary
from towpath.groups.classic.state import Phase
from towpath.groups.consumer.member import Member
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.offsets import sweeper
from towpath.groups.settings import GroupSettings
from towpath.metadata.keys import groups as keys
from towpath.topics.interface import NewTopic

RETENTION_MS = 60_000
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS)
MEMBER: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 1}


async def swept(rig: OffsetsRig, wall_ms: int) -> dict[tuple[str, int], int]:
    """What is left of group g after a sweep at this time."""
    rig.clock.wall_ms = wall_ms
    await rig.sweeper().run_once()
    return await rig.fetch("g", None)


async def group_names(rig: OffsetsRig) -> list[str]:
    return [listed.group_id for listed in await rig.groups.list_groups()]


async def test_offsets_from_outside_expire_after_their_commit() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.commit("g", {("a", 0): 1})
        rig.clock.wall_ms += 1000
        await rig.commit("g", {("a", 1): 2})
        end_ms = START_MS + RETENTION_MS
        assert await swept(rig, end_ms - 1) == {("a", 0): 1, ("a", 1): 2}
        assert await swept(rig, end_ms) == {("a", 1): 2}
        assert await group_names(rig) == ["g"]
        assert await swept(rig, end_ms + 1000) == {}
        assert await group_names(rig) == []
        assert await rig.store.keys_under(keys.prefix("g")) == []


async def test_offsets_of_an_empty_group_expire_since_it_became_empty() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.set_group("g", classic_group(1, "m"))
        await rig.commit("g", {("a", 0): 1}, **MEMBER)
        emptied_ms = START_MS + 10 * RETENTION_MS
        await rig.set_group("g", classic_group(2, phase=Phase.EMPTY, since_ms=emptied_ms))
        assert await swept(rig, emptied_ms + RETENTION_MS - 1) == {("a", 0): 1}
        assert await swept(rig, emptied_ms + RETENTION_MS) == {}
        assert await group_names(rig) == []


async def test_offsets_of_topics_in_use_do_not_expire() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.set_group("g", classic_group(1, "m", topics=["a"]))
        await rig.commit("g", {("a", 0): 1, ("b", 0): 2}, **MEMBER)
        assert await swept(rig, START_MS + RETENTION_MS - 1) == {("a", 0): 1, ("b", 0): 2}
        assert await swept(rig, START_MS + RETENTION_MS) == {("a", 0): 1}
        assert await swept(rig, START_MS + 100 * RETENTION_MS) == {("a", 0): 1}
        assert await group_names(rig) == ["g"]


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.COMPLETING])
async def test_nothing_expires_during_a_rebalance(phase: Phase) -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.commit("g", {("b", 0): 2})
        await rig.set_group("g", classic_group(1, "m", phase=phase, topics=["a"]))
        assert await swept(rig, START_MS + 2 * RETENTION_MS) == {("b", 0): 2}


async def test_nothing_expires_under_members_that_are_no_consumers() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.commit("g", {("b", 0): 2})
        await rig.set_group("g", classic_group(1, "m", protocol_type="connect"))
        assert await swept(rig, START_MS + 2 * RETENTION_MS) == {("b", 0): 2}


async def test_the_consumer_protocol_counts_from_the_commit() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.commit("g", {("a", 0): 1, ("b", 0): 2})
        member = Member("m", 0, epoch=6, topic_names=frozenset({"a"}))
        await rig.set_group("g", ConsumerGroup(epoch=6, assignment_epoch=6, members={"m": member}))
        assert await swept(rig, START_MS + RETENTION_MS) == {("a", 0): 1}
        await rig.set_group("g", ConsumerGroup(epoch=7, assignment_epoch=7))
        assert await swept(rig, START_MS + RETENTION_MS) == {}
        assert await group_names(rig) == []


async def test_a_retention_that_the_client_asked_for() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.commit("g", {("a", 0): 1}, 4, retention_time_ms=10)
        await rig.commit("g", {("a", 1): 2}, 4, retention_time_ms=5 * RETENTION_MS)
        assert await swept(rig, START_MS + 9) == {("a", 0): 1, ("a", 1): 2}
        assert await swept(rig, START_MS + 10) == {("a", 1): 2}
        assert await swept(rig, START_MS + 5 * RETENTION_MS - 1) == {("a", 1): 2}
        assert await swept(rig, START_MS + 5 * RETENTION_MS) == {}


async def test_blobs_that_a_lost_race_has_left_are_removed() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.set_group("g", classic_group(1, "m"))
        root = await rig.store.get(keys.state("g"))
        assert root is not None
        old = keys.blob("g", keys.blob_name(root.version - 1, b"of a write that failed"))
        new = keys.blob("g", keys.blob_name(root.version, b"of a write under way"))
        orphan = keys.blob("gone", keys.blob_name(1, b"of a group that is gone"))
        for key in (old, new, orphan):
            await rig.store.put(key, b"")
        await rig.sweeper().run_once()
        assert await rig.store.keys_under(keys.blobs_prefix("g")) == [new]
        assert await rig.store.keys_under(keys.prefix("gone")) == []


async def test_offsets_of_deleted_topics_go_at_once() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.set_group("g", classic_group(1, "m", topics=["a"]))
        await rig.commit("g", {("a", 0): 1, ("b", 0): 2}, **MEMBER)
        topic = rig.catalog.get("a")
        assert topic is not None
        await rig.catalog.delete(topic)
        await rig.catalog.create(NewTopic("a", 3))
        await rig.commit("g", {("a", 1): 5}, **MEMBER)
        assert await rig.sweeper().run_once() == Summary(1, 1)
        assert await rig.store.keys_under(keys.offsets_prefix("g")) == [
            keys.offset("g", "a", 1),
            keys.offset("g", "b", 0),
        ]


async def test_a_stale_catalog_removes_nothing() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state)) as two:
        topic = one.catalog.get("a")
        assert topic is not None
        await two.catalog.delete(topic)
        await two.catalog.create(NewTopic("a", 3))
        await two.catalog.create(NewTopic("new", 1))
        await two.commit("g", {("a", 0): 1, ("new", 0): 2})
        assert (await one.sweeper().run_once()).removed == 0
        assert await one.fetch("g", None) == {("a", 0): 1, ("new", 0): 2}


async def test_an_offset_committed_meanwhile_stays() -> None:
    async with offsets_rig(settings=SETTINGS) as one:
        two_store = FaultyStore(one.store.state)
        async with offsets_rig(two_store, clock=one.clock) as two:
            await one.commit("g", {("a", 0): 1, ("a", 1): 1})
            one.clock.wall_ms += RETENTION_MS
            one.store.faults.append(
                Fault("commit", "/offsets/", action=lambda: two.commit("g", {("a", 0): 2}))
            )
            assert (await one.sweeper().run_once()).removed == 1
            assert await one.fetch("g", None) == {("a", 0): 2}
            assert await group_names(one) == ["g"]


async def test_a_group_that_gets_its_first_offset_meanwhile_stays() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state)) as two:
        await one.set_group("g", classic_group(1, phase=Phase.EMPTY))
        one.store.faults.append(
            Fault("commit", "/state", action=lambda: two.commit("g", {("a", 0): 2}))
        )
        await one.sweeper().run_once()
        assert await one.fetch("g", None) == {("a", 0): 2}
        assert await group_names(one) == ["g"]


async def test_a_group_that_somebody_joins_meanwhile_stays() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state)) as two:
        await one.set_group("g", classic_group(1, phase=Phase.EMPTY))
        one.store.faults.append(
            Fault("commit", "/state", action=lambda: two.set_group("g", classic_group(2, "m")))
        )
        await one.sweeper().run_once()
        assert (await one.groups.view("g")).state is not None


async def test_a_removed_group_can_come_back() -> None:
    async with offsets_rig() as one, offsets_rig(FaultyStore(one.store.state)) as two:
        await one.set_group("g", classic_group(7, phase=Phase.EMPTY))
        await one.sweeper().run_once()
        assert await group_names(one) == []
        assert (await two.groups.view("g")).state is None
        assert await two.commit("g", {("a", 0): 2}) == [0]
        assert await one.fetch("g", None) == {("a", 0): 2}


async def test_a_round_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "REMOVED_PER_ROUND", 3)
    async with offsets_rig(settings=SETTINGS) as rig:
        for number in range(4):
            await rig.commit(f"g{number}", {("a", 0): 1, ("a", 1): 1})
        rig.clock.wall_ms += RETENTION_MS
        assert await rig.sweeper().run_once() == Summary(2, 4, more=True)
        assert await rig.sweeper().run_once() == Summary(2, 4, more=True)
        assert await rig.sweeper().run_once() == Summary(0, 0)
        assert await group_names(rig) == []


async def test_a_damaged_offset_does_not_stop_the_sweep() -> None:
    async with offsets_rig(settings=SETTINGS) as rig:
        await rig.commit("bad", {("a", 0): 1})
        await rig.store.put(keys.offset("bad", "a", 0), b"{}")
        await rig.commit("g", {("a", 0): 1})
        assert await swept(rig, START_MS + RETENTION_MS) == {}
        assert await group_names(rig) == ["bad"]


async def test_on_a_store_without_conditions() -> None:
    class WithoutConditions(FaultyStore):
        supports_conditions = False

    async with offsets_rig(WithoutConditions(), settings=SETTINGS) as rig:
        await rig.commit("g", {("a", 0): 1})
        assert await swept(rig, START_MS + RETENTION_MS) == {}
        assert await group_names(rig) == []
