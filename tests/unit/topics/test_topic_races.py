"""Several brokers, lost answers and crashes: the topic's record alone decides what exists."""

from __future__ import annotations

import uuid

import pytest
from tests.unit.helpers_topics import Fault, FaultyStore, partition_streams, running_catalog, until

from towpath.errors import ConcurrentChange, InvalidPartitionCount, TopicExists, TopicNotFound
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import MetadataError, OutcomeUnknown, StoreUnavailable, prefix_end
from towpath.topics import partition_keys
from towpath.topics.interface import NewTopic

LOST = OutcomeUnknown("the answer was lost")
DOWN = StoreUnavailable("down")


async def test_two_brokers_create_one_name_and_the_loser_repairs_the_partitions() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        # The other broker creates the topic after this one wrote its partitions, and this one
        # writes some of its own once more before it finds out.
        async def win() -> None:
            await there.create(NewTopic("a", 2))
            await partition_keys.write(store, "a", 1, range(4), 0)

        store.faults.append(Fault("put", keys.topic("a"), action=win))
        with pytest.raises(TopicExists):
            await here.create(NewTopic("a", 4))
        winner = here.get("a")
        assert winner is not None
        assert winner == there.get("a")
        assert await partition_streams(store, "a") == [winner.stream(0), winner.stream(1)]


async def test_a_lost_answer_to_the_deciding_put_counts_as_success_if_it_took_effect() -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        store.faults.append(Fault("put", keys.topic("a"), after=True, error=LOST))
        topic = await catalog.create(NewTopic("a"))
        assert catalog.get("a") == topic


async def test_a_lost_put_that_did_not_take_effect_is_repeated() -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        store.faults.append(Fault("put", keys.topic("a"), error=LOST))
        topic = await catalog.create(NewTopic("a"))
        assert catalog.get("a") == topic


async def test_a_lost_answer_skips_a_number() -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        store.faults.append(Fault("put", keys.NEXT_NUMBER, after=True, error=LOST))
        assert (await catalog.create(NewTopic("a"))).number == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("put", keys.NEXT_NUMBER, error=DOWN),
        Fault("commit", keys.partition("a", 0), error=DOWN),
        Fault("commit", keys.partition("a", 100), error=DOWN),
        Fault("put", keys.topic("a"), error=DOWN),
    ],
)
async def test_a_creation_that_fails_leaves_no_topic_and_can_be_repeated(fault: Fault) -> None:
    store = FaultyStore()
    store.faults.append(fault)
    async with running_catalog(store) as catalog:
        with pytest.raises(StoreUnavailable):
            await catalog.create(NewTopic("a", 150))
        await catalog.refresh()
        assert catalog.get("a") is None
        topic = await catalog.create(NewTopic("a", 150))
        assert await partition_streams(store, "a") == [topic.stream(p) for p in range(150)]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("put", keys.DELETED_PREFIX, error=DOWN),
        Fault("put", keys.DELETED_PREFIX, after=True, error=DOWN),
        Fault("delete", keys.topic("a"), error=DOWN),
        Fault("delete", keys.topic("a"), after=True, error=DOWN),
    ],
)
async def test_a_deletion_that_stops_anywhere_leaves_the_topic_or_a_grave(fault: Fault) -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        topic = await catalog.create(NewTopic("a", 3))
        store.faults.append(fault)
        with pytest.raises(StoreUnavailable):
            await catalog.delete(topic)
        exists = await store.get(keys.topic("a")) is not None
        assert exists or await store.get(keys.deleted(topic.number)) is not None
        await catalog.refresh()
        assert (catalog.get("a") is not None) == exists
        if exists:
            await catalog.delete(topic)
            assert await store.get(keys.deleted(topic.number)) is not None


async def test_deletion_succeeds_though_the_partition_records_cannot_be_removed() -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        topic = await catalog.create(NewTopic("a", 3))
        store.faults.append(Fault("scan", keys.partitions_prefix("a"), error=DOWN))
        await catalog.delete(topic)
        assert len(await partition_streams(store, "a")) == 3
        again = await catalog.create(NewTopic("a", 2))
        expected = [again.stream(0), again.stream(1)]
        assert (await partition_streams(store, "a"))[:2] == expected


async def test_a_lost_answer_to_the_delete_counts_as_success() -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        topic = await catalog.create(NewTopic("a"))
        store.faults.append(Fault("delete", keys.topic("a"), after=True, error=LOST))
        await catalog.delete(topic)
        assert catalog.get("a") is None


async def test_a_topic_that_grows_while_it_is_deleted_gets_a_grave_of_its_final_size() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        topic = await here.create(NewTopic("a", 2))
        store.faults.append(
            Fault("delete", keys.topic("a"), action=lambda: there.add_partitions("a", 5, None))
        )
        await here.delete(topic)
        row = await store.get(keys.deleted(topic.number))
        assert row is not None
        assert keys.DeletedTopic.decode(row.value).partitions == 5
        assert await store.keys_under(keys.TOPICS_PREFIX) == []


async def test_the_second_of_two_deleters_is_told_that_the_topic_is_gone() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        topic = await here.create(NewTopic("a", 2))
        store.faults.append(Fault("delete", keys.topic("a"), action=lambda: there.delete(topic)))
        with pytest.raises(TopicNotFound):
            await here.delete(topic)
        assert here.get("a") is None


@pytest.mark.parametrize(
    ("verb", "key"),
    [("scan", keys.partitions_prefix("a")), ("commit", keys.partition("a", 0))],
)
async def test_a_deleter_does_not_touch_the_partitions_of_a_successor(verb: str, key: str) -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        topic = await here.create(NewTopic("a", 3))
        store.faults.append(Fault(verb, key, action=lambda: there.create(NewTopic("a", 3))))
        await here.delete(topic)
        successor = there.get("a")
        assert successor is not None
        assert await partition_streams(store, "a") == [successor.stream(p) for p in range(3)]


async def test_deletion_works_on_a_store_without_conditions() -> None:
    store = FaultyStore()
    store.supports_conditions = False
    async with running_catalog(store) as catalog:
        topic = await catalog.create(NewTopic("a", 120))
        await catalog.delete(topic)
        assert await store.keys_under(keys.TOPICS_PREFIX) == []


async def test_concurrent_alterations_of_two_brokers_are_both_kept() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        await here.create(NewTopic("a"))
        store.faults.append(
            Fault(
                "put",
                keys.topic("a"),
                action=lambda: there.alter("a", {"segment.ms": "7"}, replace=False),
            )
        )
        topic = await here.alter("a", {"retention.ms": "8"}, replace=False)
        assert topic.overrides == {"segment.ms": "7", "retention.ms": "8"}


@pytest.mark.parametrize("after", [True, False])
async def test_a_lost_answer_to_an_alteration_is_settled_by_looking(after: bool) -> None:
    store = FaultyStore()
    async with running_catalog(store) as catalog:
        await catalog.create(NewTopic("a", 1))
        store.faults.append(Fault("put", keys.topic("a"), after=after, error=LOST))
        assert (await catalog.add_partitions("a", 3, None)).partitions == 3
        found = catalog.get("a")
        assert found is not None
        assert found.partitions == 3


async def test_growth_that_loses_to_a_larger_growth_is_refused_and_repaired() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        topic = await here.create(NewTopic("a", 1))
        store.faults.append(
            Fault("put", keys.topic("a"), action=lambda: there.add_partitions("a", 5, None))
        )
        with pytest.raises(InvalidPartitionCount):
            await here.add_partitions("a", 3, None)
        assert await partition_streams(store, "a") == [topic.stream(p) for p in range(5)]


async def test_growth_of_a_topic_that_was_replaced_leaves_the_successors_partitions() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        topic = await here.create(NewTopic("a", 1))

        async def replace() -> None:
            await there.delete(topic)
            await there.create(NewTopic("a", 4))
            await partition_keys.write(other, "a", topic.number, range(1, 3), 0)

        store.faults.append(Fault("put", keys.topic("a"), action=replace))
        with pytest.raises(InvalidPartitionCount):
            await here.add_partitions("a", 3, None)
        successor = there.get("a")
        assert successor is not None
        assert await partition_streams(store, "a") == [successor.stream(p) for p in range(4)]


async def test_a_change_that_never_wins_gives_up() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        await here.create(NewTopic("a"))
        numbers = iter(range(1, 1000))

        async def meddle() -> None:
            store.faults.append(Fault("put", keys.topic("a"), action=meddle))
            await there.alter("a", {"segment.ms": str(next(numbers))}, replace=False)

        store.faults.append(Fault("put", keys.topic("a"), action=meddle))
        with pytest.raises(ConcurrentChange):
            await here.alter("a", {"retention.ms": "8"}, replace=False)


async def test_the_sweep_removes_old_leftovers_and_spares_young_ones() -> None:
    store = FaultyStore()
    now_ms = 10 * partition_keys.LEFTOVER_AGE_MS
    await partition_keys.write(store, "old", 1, range(3), 0)
    await partition_keys.write(store, "young", 2, range(3), now_ms)
    record = keys.TopicRecord(uuid.UUID(int=5), 3, 2, {}, 5)
    await store.put(keys.topic("mixed"), record.encode())
    await partition_keys.write(store, "mixed", 3, range(2), 0)
    await partition_keys.write(store, "mixed", 9, range(1, 4), 0)
    wrong = await partition_keys.sweep(store, before_ms=now_ms - partition_keys.LEFTOVER_AGE_MS)
    assert wrong == 6
    assert await partition_streams(store, "old") == []
    assert len(await partition_streams(store, "young")) == 3
    assert await partition_streams(store, "mixed") == [keys.stream_id(3, 0), keys.stream_id(3, 1)]


async def test_a_started_catalog_sweeps_by_itself() -> None:
    store = FaultyStore()
    await partition_keys.write(store, "old", 1, range(1500), 0)
    async with running_catalog(store):
        prefix = keys.partitions_prefix("old")
        await until(lambda: not store.state.scan(prefix, prefix_end(prefix), 1))


async def test_a_failed_refresh_is_repeated_by_the_next() -> None:
    store = FaultyStore()
    other = FaultyStore(store.state)
    async with running_catalog(store) as here, running_catalog(other) as there:
        topic = await there.create(NewTopic("a"))
        store.faults.append(Fault("barrier", "", error=DOWN))
        with pytest.raises(MetadataError):
            await here.refresh()
        await here.refresh()
        assert here.get("a") == topic
