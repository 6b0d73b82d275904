"""The catalog's cache: fed by the watch, linearizable after a refresh, never going back."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from tests.unit.helpers_topics import Fault, FaultyStore, running_catalog, until

from towpath.errors import TopicExists, TopicNotFound
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import KeyValue, StoreUnavailable
from towpath.topics import cache as cache_module
from towpath.topics import partition_keys
from towpath.topics.cache import TopicCache
from towpath.topics.effective import TopicDefaults, settings_of
from towpath.topics.index import TopicIndex
from towpath.topics.interface import NewTopic, Topic


def topic(name: str, number: int, version: int, partitions: int = 1) -> Topic:
    settings = settings_of({}, TopicDefaults())
    return Topic(name, uuid.UUID(int=number), number, partitions, {}, settings, version, 0)


def build(name: str, row: KeyValue) -> Topic:
    record = keys.TopicRecord.decode(row.value)
    return topic(name, record.number, row.version, record.partitions)


def record(number: int, partitions: int = 1) -> bytes:
    return keys.TopicRecord(uuid.UUID(int=number), number, partitions).encode()


def test_the_index_never_goes_back_in_time() -> None:
    index = TopicIndex()
    index.put(topic("a", 1, version=5, partitions=2))
    index.put(topic("a", 1, version=4, partitions=1))
    found = index.get("a")
    assert found is not None
    assert found.partitions == 2


def test_a_successor_replaces_every_trace_of_its_predecessor() -> None:
    index = TopicIndex()
    index.put(topic("a", 1, version=5))
    index.put(topic("a", 2, version=6))
    assert index.get_by_number(1) is None
    assert index.get_by_id(uuid.UUID(int=1)) is None
    assert index.get_by_number(2) == index.get("a")
    index.drop("a")
    index.drop("a")
    assert index.all() == ()
    assert index.get_by_number(2) is None


def test_collisions_are_found_until_the_other_topic_goes() -> None:
    index = TopicIndex()
    index.put(topic("a.b", 1, version=1))
    assert index.colliding("a_b") == "a.b"
    assert index.colliding("a.b") is None
    index.drop("a.b")
    assert index.colliding("a_b") is None


async def test_a_refresh_sees_what_another_broker_committed_before_it() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        created = await there.create(NewTopic("a"))
        await here.refresh()
        assert here.get("a") == created
        await there.delete(created)
        await here.refresh()
        assert here.get("a") is None


async def test_lookups_follow_without_a_refresh() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        created = await there.create(NewTopic("a"))
        await until(lambda: here.get("a") == created)
        grown = await there.add_partitions("a", 2, None)
        await until(lambda: here.get("a") == grown)


async def test_a_restarted_catalog_finds_every_topic_behind_many_partitions() -> None:
    store = FaultyStore()
    async with running_catalog(store) as first:
        for name in ("a", "a-b", "a.c", "a0", "b"):
            await first.create(NewTopic(name, 1200))
        expected = list(first.all())
    async with running_catalog(store) as second:
        assert list(second.all()) == expected


async def test_a_gap_in_the_feed_reads_everything_again() -> None:
    store = FaultyStore()
    cache = TopicCache(store, build)
    await store.put(keys.topic("gone"), record(1))
    await store.put(keys.topic("kept"), record(2))
    await cache.start()
    # Changes that no watcher was told of, as after a lost connection.
    listeners, store.state._listeners = store.state._listeners, []
    await store.delete(keys.topic("gone"))
    await store.put(keys.topic("kept"), record(2, partitions=5))
    await store.put(keys.topic("new"), record(3))
    store.state._listeners = listeners
    await cache.refresh()
    assert cache.index.get("gone") is not None
    store._watchers.deliver([], resync=True)
    await cache.refresh()
    assert cache.index.get("gone") is None
    kept = cache.index.get("kept")
    assert kept is not None
    assert kept.partitions == 5
    assert cache.index.get("new") is not None
    await cache.close()


async def test_a_change_that_arrives_during_a_read_is_read_after_it() -> None:
    store = FaultyStore()
    cache = TopicCache(store, build)
    await cache.start()

    async def change_again() -> None:
        store.state.write([(keys.topic("a"), record(1, partitions=9))], ())

    store.faults.append(Fault("get", keys.topic("a"), after=True, action=change_again))
    await store.put(keys.topic("a"), record(1))
    await cache.refresh()
    await cache.refresh()
    found = cache.index.get("a")
    assert found is not None
    assert found.partitions == 9
    await cache.close()


async def test_a_refresh_waits_for_a_read_that_is_under_way() -> None:
    store = FaultyStore()
    cache = TopicCache(store, build)
    await cache.start()
    gate, reading = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        reading.set()
        await gate.wait()

    store.faults.append(Fault("get", keys.topic("a"), action=wait))
    await store.put(keys.topic("a"), record(1))
    await reading.wait()
    refreshed = asyncio.create_task(cache.refresh())
    await asyncio.sleep(0)
    assert not refreshed.done()
    gate.set()
    await refreshed
    assert cache.index.get("a") is not None
    await cache.close()


async def test_a_cancelled_reader_forgets_nothing() -> None:
    store = FaultyStore()
    cache = TopicCache(store, build)
    await cache.start()
    reading = asyncio.Event()

    async def hang() -> None:
        reading.set()
        await asyncio.Event().wait()

    assert cache._follower is not None
    cache._follower.cancel()
    store.faults.append(Fault("get", keys.topic("a"), action=hang))
    await store.put(keys.topic("a"), record(1))
    reader = asyncio.create_task(cache.refresh())
    await reading.wait()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    await cache.refresh()
    assert cache.index.get("a") is not None
    await cache.close()


async def test_the_follower_survives_a_failing_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "RETRY_MS", 0)
    store = FaultyStore()
    cache = TopicCache(store, build)
    await cache.start()
    store.faults.append(Fault("get", keys.topic("a"), error=StoreUnavailable("down")))
    await store.put(keys.topic("a"), record(1))
    await until(lambda: cache.index.get("a") is not None)
    await cache.close()


async def test_a_record_of_another_release_is_left_out_and_hurts_no_other_topic() -> None:
    store = FaultyStore()
    await store.put(keys.topic("future"), b'{"version":2}')
    await store.put(keys.topic("a"), record(1))
    await store.put(keys.partition("future", 0), b'{"version":2}')
    async with running_catalog(store) as catalog:
        assert [found.name for found in catalog.all()] == ["a"]
        with pytest.raises(TopicExists):
            await catalog.create(NewTopic("future"))
        with pytest.raises(TopicNotFound):
            await catalog.alter("future", {}, replace=False)
        assert await partition_keys.sweep(store, before_ms=1 << 60) == 0
        for key in (keys.topic("future"), keys.partition("future", 0)):
            row = await store.get(key)
            assert row is not None
            assert row.value == b'{"version":2}'


async def test_partition_records_alone_cause_no_reads() -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        await catalog.refresh()
        store.calls.clear()
        await store.put(keys.partition("a", 0), b"x")
        await catalog.refresh()
        assert [call for call in store.calls if call[0] == "get"] == []
        await store.delete(keys.partition("a", 0))
