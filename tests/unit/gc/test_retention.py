"""Retention by time and size, what DeleteRecords left, and the tombstone at the tail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.gc.helpers_gc import KEEP_ALL, START_MS, StoredTopics, World

from towpath.gc.retention import Retention
from towpath.metadata.keys import streams, topics, wal
from towpath.metadata.proto.index_pb2 import TOMBSTONE

STREAM = topics.stream_id(1, 0)
OTHER = topics.stream_id(1, 1)


async def world_with(settings: dict[str, int | bool]) -> World:
    world = World()
    world.retention[1] = replace(KEEP_ALL, **settings)  # type: ignore[arg-type]
    await world.create_topic(1)
    return world


async def test_entries_older_than_retention_ms_go_and_the_first_young_one_stops() -> None:
    world = await world_with({"retention_ms": 100})
    for age_ms in (300, 101, 100, 500, 0):
        await world.append([STREAM], timestamp_ms=START_MS - age_ms)
    summary = await world.run("retention")
    assert summary is not None
    assert summary.removed == 2
    assert await world.log_start(STREAM) == 20  # Exactly 100 ms old is not older than 100 ms.
    assert await world.ends(STREAM) == [30, 40, 50]
    assert await world.log_start(OTHER) == 0


async def test_without_timestamps_the_creation_counts() -> None:
    world = await world_with({"retention_ms": 100})
    await world.append([STREAM], timestamp_ms=-1)
    await world.run("retention")
    assert await world.ends(STREAM) == [10]
    world.clock.ms += 101
    await world.run("retention")
    assert await world.ends(STREAM) == []


async def test_the_newest_entry_may_expire_and_keeps_the_log_end() -> None:
    world = await world_with({"retention_ms": 100})
    await world.append([STREAM], timestamp_ms=START_MS - 500)
    await world.append([STREAM], timestamp_ms=START_MS - 400)
    await world.run("retention")
    assert await world.log_start(STREAM) == 20
    ((end, tombstone),) = await world.entries(STREAM)
    assert end == 20
    assert tombstone.file_type == TOMBSTONE
    assert tombstone.record_count == 10
    assert tombstone.max_timestamp_ms == START_MS - 400
    assert not tombstone.HasField("wal")
    assert (await world.store.tails([STREAM]))[0].offset_end == 20
    version = await world.store.get((await world.keys(streams.index_prefix(STREAM)))[0])
    await world.run("retention")
    assert await world.store.get((await world.keys(streams.index_prefix(STREAM)))[0]) == version
    # The next append goes on from the old end, and the tombstone is not the tail any more.
    await world.append([STREAM])
    assert await world.ends(STREAM) == [30]
    await world.run("retention")
    assert [end for end, _ in await world.entries(STREAM)] == [30]
    assert await world.log_start(STREAM) == 20


@pytest.mark.parametrize(
    ("limit_bytes", "left"),
    [(-1, 5), (501, 5), (401, 5), (400, 4), (399, 4), (301, 4), (300, 3), (1, 1), (0, 0)],
)
async def test_retention_bytes_leaves_at_least_the_limit(limit_bytes: int, left: int) -> None:
    world = await world_with({"retention_bytes": limit_bytes})
    for _ in range(5):
        await world.append([STREAM], size_bytes=100)
    await world.run("retention")
    assert len(await world.ends(STREAM)) == left
    assert await world.log_start(STREAM) == (5 - left) * 10


async def test_both_limits_hold_together() -> None:
    world = await world_with({"retention_ms": 100, "retention_bytes": 200})
    for age_ms in (500, 0, 0, 0, 0):
        await world.append([STREAM], timestamp_ms=START_MS - age_ms)
    await world.run("retention")
    assert await world.ends(STREAM) == [40, 50]


async def test_topics_that_do_not_delete_keep_their_data() -> None:
    world = await world_with({"retention_ms": 1, "retention_bytes": 1, "delete": False})
    for _ in range(3):
        await world.append([STREAM], timestamp_ms=0)
    await world.run("retention")
    assert await world.ends(STREAM) == [10, 20, 30]
    await world.delete_before(STREAM, 20)
    await world.run("retention")
    assert await world.ends(STREAM) == [30]


async def test_what_delete_records_left_is_released_whole_entries_only() -> None:
    world = await world_with({})
    paths = [await world.append([STREAM, OTHER]) for _ in range(3)]
    await world.delete_before(STREAM, 15)
    await world.run("retention")
    assert await world.ends(STREAM) == [20, 30]
    assert await world.ends(OTHER) == [10, 20, 30]
    assert await world.log_start(STREAM) == 15
    (deref,) = await world.keys(wal.DEREFS_PREFIX)
    assert deref.endswith(f"/{STREAM:020d}")
    assert await world.object_paths() == set(paths)


async def test_a_log_start_beyond_what_expired_does_not_go_back() -> None:
    world = await world_with({"retention_ms": 100})
    for age_ms in (500, 0, 0):
        await world.append([STREAM], timestamp_ms=START_MS - age_ms)
    await world.delete_before(STREAM, 25)
    await world.run("retention")
    assert await world.log_start(STREAM) == 25
    assert await world.ends(STREAM) == [30]


async def test_producers_are_saved_before_their_entries_go() -> None:
    world = await world_with({"retention_ms": 100})
    for producer_id in (None, 7, None):
        await world.append([STREAM], timestamp_ms=0, producer_id=producer_id)
    await world.append([OTHER], timestamp_ms=0)
    kept_when_saving: list[list[int]] = []

    async def save(stream_id: int, offset_end: int) -> None:
        world.saved_producers.append((stream_id, offset_end))
        kept_when_saving.append(await world.ends(stream_id))

    retention = Retention(
        world.store, StoredTopics(world.store, world.retention), save, world.runtime
    )
    await retention.run_once()
    assert world.saved_producers == [(STREAM, 30)]  # OTHER has none.
    assert kept_when_saving == [[10, 20, 30]]
    assert await world.ends(STREAM) == []


async def test_a_round_is_bounded_and_the_next_goes_on() -> None:
    world = await world_with({"retention_ms": 100})
    for _ in range(12):
        await world.append([STREAM, OTHER], timestamp_ms=0)
    retention = Retention(
        world.store,
        StoredTopics(world.store, world.retention),
        world.save_producers,
        world.runtime,
        entries_per_round=5,
    )
    rounds = [await retention.run_once()]
    while rounds[-1].more:
        rounds.append(await retention.run_once())
    assert all(summary.removed <= 5 for summary in rounds)
    assert sum(summary.removed for summary in rounds) == 24
    assert await world.ends(STREAM) == []
    assert await world.ends(OTHER) == []


async def test_a_damaged_entry_stops_only_its_own_stream() -> None:
    world = await world_with({"retention_ms": 100})
    await world.append([STREAM, OTHER], timestamp_ms=0)
    (key,) = await world.keys(streams.index_prefix(STREAM))
    await world.store.put(key, b"\xff")
    await world.run("retention")
    assert await world.ends(OTHER) == []
    assert await world.keys(streams.index_prefix(STREAM)) == [key]
    assert await world.log_start(STREAM) == 0
