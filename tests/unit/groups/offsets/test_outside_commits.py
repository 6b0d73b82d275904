"""Commits by programs without a broker: what brokers see of them, and when they are refused."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.groups.offsets.helpers_offsets import OffsetsRig, classic_group, offsets_rig
from tests.unit.helpers_topics import Fault

from towpath.groups.classic.state import Phase
from towpath.groups.offsets.blocking import CommitFailed, OutsideCommits
from towpath.groups.offsets.outside import GroupInUse, check_group, commit_outside
from towpath.groups.offsets.simple import simple_group
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable
from towpath.runtime import inline_runtime


def id_of(rig: OffsetsRig, topic: str) -> UUID:
    found = rig.catalog.get(topic)
    assert found is not None
    return found.topic_id


async def commit(rig: OffsetsRig, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    await commit_outside(
        rig.store, group_id, topic, id_of(rig, topic), offsets, rig.services.runtime
    )


async def test_a_group_comes_into_being() -> None:
    async with offsets_rig() as rig:
        await commit(rig, "g", "a", {0: 5, 2: 7})
        await commit(rig, "g", "b", {0: 1})
        assert await rig.fetch("g", None) == {("a", 0): 5, ("a", 2): 7, ("b", 0): 1}
        (listed,) = await rig.groups.list_groups()
        assert (listed.group_id, listed.kind, listed.state_name) == ("g", "classic", "Empty")
        assert listed.protocol_type == ""
        assert await rig.store.get(offset_keys.mark("g")) is not None


async def test_it_is_as_a_simple_consumers_commit() -> None:
    async with offsets_rig() as rig:
        await commit(rig, "outside", "a", {0: 5})
        await rig.commit("consumer", {("a", 0): 5})
        values = [
            await rig.store.get(keys.offset(group, "a", 0)) for group in ("outside", "consumer")
        ]
        assert values[0] is not None
        assert values[1] is not None
        assert values[0].value == values[1].value
        # A tool or a consumer of its own may go on, and so may the program.
        assert await rig.commit("outside", {("a", 0): 2}) == [ErrorCode.NONE]
        await commit(rig, "outside", "a", {0: 3})
        assert await rig.fetch("outside", None) == {("a", 0): 3}


@pytest.mark.parametrize("phase", [Phase.STABLE, Phase.PREPARING, Phase.COMPLETING])
async def test_a_group_with_members_refuses(phase: Phase) -> None:
    async with offsets_rig() as rig:
        await commit(rig, "g", "a", {0: 5})
        await rig.set_group("g", classic_group(3, "m", phase=phase))
        with pytest.raises(GroupInUse, match=f"is {phase.value} with 1 member"):
            await commit(rig, "g", "a", {0: 6})
        with pytest.raises(GroupInUse):
            await check_group(rig.store, "g")
        assert await rig.fetch("g", None) == {("a", 0): 5}
        await rig.set_group("g", classic_group(4, phase=Phase.EMPTY))
        await check_group(rig.store, "g")
        await check_group(rig.store, "unheard-of")
        await commit(rig, "g", "a", {0: 6})
        assert await rig.fetch("g", None) == {("a", 0): 6}


async def test_who_joins_meanwhile_is_not_overruled() -> None:
    async with offsets_rig() as rig:
        await commit(rig, "g", "a", {0: 5})

        async def join() -> None:
            await rig.set_group("g", classic_group(1, "m"))

        rig.store.faults.append(Fault("commit", keys.offset("g", "a", 0), action=join))
        with pytest.raises(GroupInUse):
            await commit(rig, "g", "a", {0: 6})
        assert await rig.fetch("g", None) == {("a", 0): 5}


async def test_whoever_makes_the_group_first() -> None:
    async with offsets_rig() as rig:

        async def make() -> None:
            await rig.set_group("g", simple_group(1))

        rig.store.faults.append(Fault("put", keys.state("g"), action=make))
        await commit(rig, "g", "a", {0: 6})
        assert await rig.fetch("g", None) == {("a", 0): 6}
        lost = Fault("put", keys.state("h"), error=OutcomeUnknown("lost"), after=True)
        rig.store.faults.append(lost)
        await commit(rig, "h", "a", {0: 6})
        assert await rig.fetch("h", None) == {("a", 0): 6}


async def test_a_deleted_group_begins_anew() -> None:
    async with offsets_rig() as rig:
        await commit(rig, "g", "a", {0: 5, 1: 5})
        await rig.set_group("g", None)
        await commit(rig, "g", "a", {0: 6})
        assert await rig.fetch("g", None) == {("a", 0): 6}


async def test_the_sweeper_leaves_what_is_new() -> None:
    async with offsets_rig() as rig:
        await commit(rig, "g", "a", {0: 5})
        await rig.sweeper().run_once()
        assert await rig.fetch("g", None) == {("a", 0): 5}
        rig.clock.wall_ms += rig.settings.offsets_retention_ms
        await rig.sweeper().run_once()
        assert await rig.groups.list_groups() == []


async def test_failures_of_the_store() -> None:
    async with offsets_rig() as rig:
        for error in (StoreUnavailable("gone"), OutcomeUnknown("lost")):
            rig.store.faults.append(Fault("commit", keys.offset("g", "a", 0), error=error))
            with pytest.raises(type(error)):
                await commit(rig, "g", "a", {0: 6})


def test_blocking_calls_say_what_failed(tmp_path: Path) -> None:
    commits = OutsideCommits(tmp_path / "metadata.sqlite", inline_runtime())
    commits.check("g")
    commits.commit("g", "a", UUID(int=1), {0: 5})
    commits.commit("g", "a", UUID(int=1), {0: 6})
    (tmp_path / "other.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(CommitFailed, match=r"other\.sqlite"):
        OutsideCommits(tmp_path / "other.sqlite").commit("g", "a", UUID(int=1), {0: 5})
