"""What deleted topics leave: streams, partition records and graves."""

from __future__ import annotations

import pytest
from tests.unit.gc.helpers_gc import SETTINGS, World

from towpath.gc.deleted_topics import DeletedTopics
from towpath.metadata.keys import streams, topics, wal, writers

A = topics.stream_id(1, 0)
B = topics.stream_id(1, 1)
KEPT = topics.stream_id(2, 0)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create_topic(1)
    await world.create_topic(2)
    for _ in range(3):
        await world.append([A, B, KEPT])
    await world.delete_before(A, 5)
    await world.store.put(streams.producer_snapshot(B), b"snapshot")
    return world


async def test_every_key_of_its_streams_goes_and_nothing_of_others(world: World) -> None:
    await world.delete_topic(1)
    await world.run("deleted")
    for stream_id in (A, B):
        assert await world.keys(streams.stream_prefix(stream_id)) == []
    assert await world.ends(KEPT) == [10, 20, 30]
    assert len(await world.keys(wal.DEREFS_PREFIX)) == 6
    assert await world.keys(topics.partitions_prefix("t1")) == []
    assert len(await world.keys(topics.partitions_prefix("t2"))) == 2
    assert await world.keys(topics.DELETED_PREFIX) == [topics.deleted(1)]


async def test_how_far_writers_have_come_goes_with_the_topic(world: World) -> None:
    for number in (1, 2):
        key = writers.progress(number, "query")
        await world.store.put(key, writers.Progress("query", 3, 0).encode())
    await world.delete_topic(1)
    await world.run("deleted")
    assert await world.keys(writers.PROGRESS_PREFIX) == [writers.progress(2, "query")]


async def test_the_grave_stays_for_late_appends(world: World) -> None:
    await world.delete_topic(1)
    await world.run("deleted")
    late = topics.stream_id(1, 7)  # A partition that was added just before.
    await world.append([A, late])
    world.clock.ms += SETTINGS.wal_orphan_ttl_ms
    await world.run("deleted")
    assert await world.entries(A) == []
    assert await world.entries(late) == []
    assert await world.keys(topics.DELETED_PREFIX) == [topics.deleted(1)]
    await world.run("deleted")
    assert await world.keys(topics.DELETED_PREFIX) == []
    assert await world.ends(KEPT) == [10, 20, 30]


async def test_a_grave_whose_topic_lives_deletes_nothing(world: World) -> None:
    before = await world.keys("/")
    await world.delete_topic(1, crash_before_delete=True)
    await world.run("deleted")
    assert await world.keys("/") == sorted([*before, topics.deleted(1)])
    world.clock.ms += SETTINGS.wal_orphan_ttl_ms
    await world.run("deleted")
    assert await world.keys("/") == before


async def test_a_new_topic_of_the_same_name_keeps_its_partition_records(world: World) -> None:
    await world.delete_topic(1)
    record = topics.TopicRecord(world.runtime.uuid4(), 3, 1)
    await world.store.put(topics.topic("t1"), record.encode())
    mine = topics.PartitionRecord(topics.stream_id(3, 0), world.clock.ms).encode()
    await world.store.put(topics.partition("t1", 0), mine)
    await world.run("deleted")
    assert await world.keys(topics.partitions_prefix("t1")) == [topics.partition("t1", 0)]
    assert await world.entries(A) == []


async def test_a_round_is_bounded_and_the_next_goes_on(world: World) -> None:
    await world.delete_topic(1)
    collector = DeletedTopics(world.store, world.runtime, SETTINGS, keys_per_round=3)
    removed = []
    while (summary := await collector.run_once()).more:
        removed.append(summary.removed)
    assert removed == [3, 3]
    assert summary.removed == 2
    assert await world.keys(streams.stream_prefix(A)) == []


async def test_a_damaged_grave_does_not_stop_the_others(world: World) -> None:
    await world.store.put(topics.deleted(0), b"damaged")
    await world.delete_topic(1)
    await world.run("deleted")
    assert await world.entries(A) == []
