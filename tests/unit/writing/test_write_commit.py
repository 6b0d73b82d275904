"""The commit of a write: all or nothing, an epoch once, and never what the collector has taken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.log_helpers import fail_commits
from tests.unit.writing.helpers_writing import (
    GRACE_MS,
    NUMBER,
    TOPIC,
    TTL_MS,
    Row,
    World,
    paths_of,
)

from towpath.metadata.keys import topics, wal, writers
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable
from towpath.writing import commit as commit_module
from towpath.writing.block import BlockPlace, current_block
from towpath.writing.commit import Epoch, Outcome, TopicChanged, commit
from towpath.writing.errors import WriteFailed, WriteRefused, WriteUnknown


@pytest.fixture
async def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    await world.create_topic()
    return world


def rows(*values: bytes, partition: int = 0) -> list[Row]:
    return [Row(value, partition=partition) for value in values]


async def test_all_tasks_become_visible_at_once_and_in_order(world: World) -> None:
    first = await world.stage(rows(b"a", b"b"), rows(b"c"), rows(b"d", partition=2), [])
    assert await world.values() == [[], [], []]
    assert await commit(world.store, first, None, world.runtime) is Outcome.ADDED
    second = await world.stage(rows(b"e"))
    assert await commit(world.store, second, None, world.runtime) is Outcome.ADDED
    assert await world.values() == [[b"a", b"b", b"c", b"e"], [], [b"d"]]
    revisions = {entry.version for partition in (0, 2) for entry in await world.entries(partition)}
    assert len(revisions) == 2
    recorded = await world.store.scan(wal.OBJECTS_PREFIX, wal.OBJECTS_PREFIX + "~")
    assert {wal.WalObject.decode(row.value).path for row in recorded} == paths_of(first + second)


async def test_several_objects_of_a_task_follow_each_other(world: World) -> None:
    target = await world.target()
    values = [b"%d" % number for number in range(200)]
    staged = world.stage_one(target, rows(*values), object_rows_bytes=500)
    assert len(staged.objects) > 3
    await commit(world.store, [staged], None, world.runtime)
    assert (await world.values())[0] == values


async def test_nothing_staged_is_no_commit(world: World) -> None:
    staged = await world.stage([], [])
    before = await world.store.scan("", "~")
    assert await commit(world.store, staged, Epoch("q", 0), world.runtime) is Outcome.NOTHING
    assert await world.store.scan("", "~") == before


async def test_an_epoch_is_added_once(world: World) -> None:
    for number in range(3):
        for _ in range(2):
            staged = await world.stage(rows(b"%d" % number))
            outcome = await commit(world.store, staged, Epoch("q", number), world.runtime)
        assert outcome is Outcome.REPLAYED
    late = await world.stage(rows(b"late"))
    assert await commit(world.store, late, Epoch("q", 1), world.runtime) is Outcome.REPLAYED
    assert (await world.values())[0] == [b"0", b"1", b"2"]
    other = await world.stage(rows(b"other"))
    assert await commit(world.store, other, Epoch("r", 0), world.runtime) is Outcome.ADDED
    assert (await world.values())[0][-1] == b"other"
    found = await world.store.get(writers.progress(NUMBER, "q"))
    assert found is not None
    assert writers.Progress.decode(found.value).epoch == 2


async def test_who_counts_anew_under_an_old_name_is_told(world: World) -> None:
    for number in (4, 5):
        staged = await world.stage(rows(b"%d" % number))
        await commit(world.store, staged, Epoch("q", number, strict=True), world.runtime)
    again = await world.stage(rows(b"5"))
    epoch = Epoch("q", 5, strict=True)
    assert await commit(world.store, again, epoch, world.runtime) is Outcome.REPLAYED
    with pytest.raises(WriteRefused, match="epoch 0 of 'q' is below 5"):
        await commit(world.store, again, Epoch("q", 0, strict=True), world.runtime)


async def test_of_two_drivers_one_adds_the_epoch(world: World) -> None:
    for number in range(20):
        both = [await world.stage(rows(b"%d" % number)) for _ in range(2)]
        outcomes = await asyncio.gather(
            *(commit(world.store, each, Epoch("q", number), world.runtime) for each in both)
        )
        assert sorted(outcome.value for outcome in outcomes) == ["added", "replayed"]
    assert (await world.values())[0] == [b"%d" % number for number in range(20)]


async def test_a_driver_that_slept_after_its_look_adds_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = await world.stage(rows(b"slow")), await world.stage(rows(b"quick"))
    real = world.store.commit
    done: list[bool] = []

    async def commit_after_the_other(*args: object, **options: object) -> object:
        if not done:
            done.append(True)
            outcome = await commit(world.store, quick, Epoch("q", 0), world.runtime)
            assert outcome is Outcome.ADDED
        return await real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "commit", commit_after_the_other)
    assert await commit(world.store, slow, Epoch("q", 0), world.runtime) is Outcome.REPLAYED
    assert (await world.values())[0] == [b"quick"]


@pytest.mark.parametrize("epoch", [None, Epoch("q", 0)])
async def test_a_lost_answer_is_settled_by_looking(world: World, epoch: Epoch | None) -> None:
    staged = await world.stage(rows(b"1"))
    fail_commits(world.store, [(OutcomeUnknown("lost"), True)])
    assert await commit(world.store, staged, epoch, world.runtime) is Outcome.ADDED
    assert (await world.values())[0] == [b"1"]


@pytest.mark.parametrize("epoch", [None, Epoch("q", 0)])
async def test_a_commit_that_may_come_late_is_never_sent_again(
    world: World, epoch: Epoch | None
) -> None:
    staged = await world.stage(rows(b"1"))
    fail_commits(world.store, [(OutcomeUnknown("lost"), False)])
    with pytest.raises(WriteUnknown, match="not known"):
        await commit(world.store, staged, epoch, world.runtime)
    assert (await world.values())[0] == []
    assert world.paths() == paths_of(staged)


async def test_a_store_that_refuses_is_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_module, "RETRY_DELAY_SECONDS", 0.0)
    staged = await world.stage(rows(b"1"))
    fail_commits(world.store, [(StoreUnavailable("busy"), False)] * 3)
    assert await commit(world.store, staged, Epoch("q", 0), world.runtime) is Outcome.ADDED
    fail_commits(world.store, [(StoreUnavailable("busy"), False)] * commit_module.MAX_ATTEMPTS)
    with pytest.raises(WriteFailed, match="refused the commit: busy"):
        await commit(world.store, await world.stage(rows(b"2")), None, world.runtime)
    assert (await world.values())[0] == [b"1"]


async def test_a_topic_that_is_gone_or_new_gets_nothing(world: World) -> None:
    staged = await world.stage(rows(b"1"))
    await world.create_topic(NUMBER + 1)
    with pytest.raises(TopicChanged, match="'orders' was deleted during the write"):
        await commit(world.store, staged, None, world.runtime)
    await world.store.delete(topics.topic(TOPIC))
    with pytest.raises(TopicChanged):
        await commit(world.store, staged, Epoch("q", 0), world.runtime)
    assert (await world.values())[0] == []


async def test_a_topic_that_changes_during_the_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = await world.stage(rows(b"1"))
    real = world.store.commit
    done: list[bool] = []

    async def commit_after_a_change(*args: object, **options: object) -> object:
        if not done:
            done.append(True)
            await world.create_topic()
        return await real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "commit", commit_after_a_change)
    assert await commit(world.store, staged, None, world.runtime) is Outcome.ADDED


async def test_a_commit_has_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = await world.stage(*[rows(b"1"), rows(b"2", partition=1)] * 3)
    monkeypatch.setattr(commit_module, "MAX_ENTRIES", 5)
    with pytest.raises(WriteRefused, match="the write has 6 chunks"):
        await commit(world.store, staged, None, world.runtime)


# The collector of orphans


async def test_the_collector_leaves_what_is_still_to_be_committed(world: World) -> None:
    staged = await world.stage(rows(b"1"))
    world.clock.ms += TTL_MS - 1
    for _ in range(2):
        assert (await world.collect_orphans()).removed == 0
    assert await commit(world.store, staged, Epoch("q", 0), world.runtime) is Outcome.ADDED
    assert (await world.values())[0] == [b"1"]


async def test_what_was_condemned_cannot_be_committed_and_goes(world: World) -> None:
    staged = await world.stage(rows(b"1"))
    world.clock.ms += TTL_MS
    await world.collect_orphans()
    for epoch in (None, Epoch("q", 0)):
        with pytest.raises(WriteFailed, match=r"given up .*write it again"):
            await commit(world.store, staged, epoch, world.runtime)
    world.clock.ms += GRACE_MS
    assert (await world.collect_orphans()).removed == 1
    assert world.paths() == set()
    assert await world.store.scan(wal.STAGING_PREFIX, wal.STAGING_PREFIX + "~") == []
    again = await world.stage(rows(b"1"))
    assert await commit(world.store, again, Epoch("q", 0), world.runtime) is Outcome.ADDED


async def test_the_collector_takes_what_never_is_and_nothing_else(world: World) -> None:
    committed = await world.stage(rows(b"1"))
    await commit(world.store, committed, None, world.runtime)
    lost = await world.stage(rows(b"2"))
    world.clock.ms += TTL_MS
    await world.collect_orphans()
    world.clock.ms += GRACE_MS
    assert (await world.collect_orphans()).removed == len(paths_of(lost))
    assert world.paths() == paths_of(committed)
    assert (await world.values())[0] == [b"1"]


# The block that writers share


async def test_writers_share_a_block_until_it_is_old(world: World) -> None:
    async def markers() -> int:
        return len(await world.store.scan(wal.STAGING_PREFIX, wal.STAGING_PREFIX + "~"))

    first = (await world.target()).block
    assert (await world.target()).block == first
    world.clock.ms += TTL_MS // 4 + 1
    second = (await world.target()).block
    assert second != first
    assert await markers() == 2
    place = BlockPlace(0, "towpath", "default", TTL_MS)
    world.clock.ms += TTL_MS
    found = await asyncio.gather(
        *(current_block(world.store, place, world.runtime) for _ in range(5))
    )
    assert len(set(found)) == 1
    assert await markers() == 3


async def test_a_condemned_block_is_not_used(world: World) -> None:
    first = (await world.target()).block
    found = await world.store.get(first.marker_key)
    assert found is not None
    marker = wal.StagingBlock.decode(found.value)
    condemned = wal.StagingBlock(marker.path_prefix, marker.created_at_ms, -1, world.clock.ms)
    await world.store.put(first.marker_key, condemned.encode())
    assert (await world.target()).block != first
