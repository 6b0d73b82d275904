"""Topics on the store: creation, deletion, growth and configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.helpers_topics import FaultyStore, partition_streams, running_catalog

from towpath.errors import (
    ConcurrentChange,
    InvalidConfig,
    InvalidPartitionCount,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopicName,
    TopicError,
    TopicExists,
    TopicNotFound,
)
from towpath.metadata.keys import topics as keys
from towpath.topics.catalog import NO_ID, TopicCatalog
from towpath.topics.effective import TopicDefaults
from towpath.topics.interface import NewTopic


@pytest.fixture
async def store() -> FaultyStore:
    return FaultyStore()


@pytest.fixture
async def catalog(store: FaultyStore) -> AsyncIterator[TopicCatalog]:
    async with running_catalog(store, defaults=TopicDefaults(num_partitions=4)) as running:
        yield running


async def test_a_created_topic_is_stored_and_found_by_name_id_and_number(
    store: FaultyStore, catalog: TopicCatalog
) -> None:
    topic = await catalog.create(
        NewTopic("orders", partitions=3, overrides={"retention.ms": " 5 "})
    )
    assert (topic.name, topic.partitions, topic.number) == ("orders", 3, 1)
    assert topic.overrides == {"retention.ms": "5"}
    assert topic.settings.retention_ms == 5
    for found in (
        catalog.get("orders"),
        catalog.get_by_id(topic.topic_id),
        catalog.get_by_number(1),
    ):
        assert found == topic
    row = await store.get(keys.topic("orders"))
    assert row is not None
    assert row.version == topic.version
    record = keys.TopicRecord.decode(row.value)
    assert (record.topic_id, record.number, record.partitions) == (topic.topic_id, 1, 3)
    assert await partition_streams(store, "orders") == [topic.stream(p) for p in range(3)]


async def test_the_topic_record_is_written_after_its_partitions(
    store: FaultyStore, catalog: TopicCatalog
) -> None:
    await catalog.create(NewTopic("a", partitions=250))
    writes = [key for verb, key in store.calls if verb in ("put", "commit")]
    assert writes == [
        keys.NEXT_NUMBER,
        keys.partition("a", 0),
        keys.partition("a", 100),
        keys.partition("a", 200),
        keys.topic("a"),
    ]


async def test_minus_one_means_the_brokers_default(catalog: TopicCatalog) -> None:
    assert (await catalog.create(NewTopic("a"))).partitions == 4


async def test_numbers_are_never_reused(catalog: TopicCatalog) -> None:
    first = await catalog.create(NewTopic("a"))
    await catalog.delete(first)
    second = await catalog.create(NewTopic("a"))
    assert second.number == 2
    assert second.topic_id != first.topic_id
    assert second.version > first.version
    assert catalog.get_by_number(1) is None
    assert catalog.get_by_id(first.topic_id) is None


@pytest.mark.parametrize(
    ("new", "error", "message"),
    [
        (NewTopic("a b"), InvalidTopicName, "Topic name is invalid"),
        (NewTopic("__cluster_metadata"), InvalidTopicName, "prohibited"),
        (NewTopic("there"), TopicExists, "Topic 'there' already exists."),
        (NewTopic("x_y"), InvalidTopicName, "Topic 'x_y' collides with existing topic: x.y"),
        (NewTopic("a", partitions=0), InvalidPartitionCount, "non-positive"),
        (NewTopic("a", partitions=-2), InvalidPartitionCount, "non-positive"),
        (NewTopic("a", partitions=100_001), InvalidPartitionCount, "limit of 100000"),
        (NewTopic("a", replication_factor=0), InvalidReplicationFactor, "larger than 0"),
        (NewTopic("a", replication_factor=-2), InvalidReplicationFactor, "larger than 0"),
        (NewTopic("a", overrides={"nope": "1"}), InvalidConfig, "Unknown topic config name: nope"),
        (NewTopic("a", overrides={"retention.ms": None}), InvalidConfig, "Null value"),
        (NewTopic("a", assignments={0: ()}), InvalidReplicaAssignment, "empty replica list"),
        (NewTopic("a", assignments={0: (9,)}), InvalidReplicaAssignment, "broker 9, but no such"),
        (NewTopic("a", assignments={0: (1, 1)}), InvalidReplicaAssignment, "more than once"),
        (NewTopic("a", assignments={1: (1,)}), InvalidReplicaAssignment, "consecutive 0-based"),
        (NewTopic("a", assignments={0: (1,), 1: (1, 2)}), InvalidReplicaAssignment, "consistent"),
    ],
)
async def test_a_wrong_topic_is_refused_and_nothing_is_written(
    store: FaultyStore,
    catalog: TopicCatalog,
    new: NewTopic,
    error: type[TopicError],
    message: str,
) -> None:
    await catalog.create(NewTopic("there"))
    await catalog.create(NewTopic("x.y"))
    revision = store.state.revision
    with pytest.raises(error) as caught:
        await catalog.create(new)
    assert message in str(caught.value)
    assert store.state.revision == revision


async def test_replication_is_accepted_and_ignored(catalog: TopicCatalog) -> None:
    assert (await catalog.create(NewTopic("a", 2, replication_factor=3))).partitions == 2
    assigned = await catalog.create(NewTopic("b", assignments={1: (2, 1), 0: (1, 3)}))
    assert assigned.partitions == 2


async def test_validate_only_writes_nothing(store: FaultyStore, catalog: TopicCatalog) -> None:
    revision = store.state.revision
    topic = await catalog.create(NewTopic("a", 7), validate_only=True)
    assert (topic.partitions, topic.topic_id) == (7, NO_ID)
    assert store.state.revision == revision
    assert catalog.get("a") is None
    with pytest.raises(InvalidPartitionCount):
        await catalog.create(NewTopic("a", 0), validate_only=True)


async def test_all_lists_topics_by_name(catalog: TopicCatalog) -> None:
    for name in ("b", "a-b", "a", "A"):
        await catalog.create(NewTopic(name))
    assert [topic.name for topic in catalog.all()] == ["A", "a", "a-b", "b"]


async def test_deletion_leaves_a_grave_and_no_other_trace(
    store: FaultyStore, catalog: TopicCatalog
) -> None:
    topic = await catalog.create(NewTopic("a", 250))
    kept = await catalog.create(NewTopic("a-b", 1))
    store.calls.clear()
    await catalog.delete(topic)
    assert catalog.get("a") is None
    assert await store.keys_under(keys.TOPICS_PREFIX) == [
        keys.topic("a-b"),
        keys.partition("a-b", 0),
    ]
    assert catalog.get("a-b") == kept
    row = await store.get(keys.deleted(topic.number))
    assert row is not None
    grave = keys.DeletedTopic.decode(row.value)
    assert (grave.name, grave.topic_id, grave.partitions) == ("a", topic.topic_id, 250)
    writes = [key for verb, key in store.calls if verb in ("put", "delete")]
    assert writes == [keys.deleted(topic.number), keys.topic("a")]


async def test_deleting_twice_or_a_predecessor_is_not_found(catalog: TopicCatalog) -> None:
    first = await catalog.create(NewTopic("a"))
    await catalog.delete(first)
    with pytest.raises(TopicNotFound):
        await catalog.delete(first)
    second = await catalog.create(NewTopic("a"))
    with pytest.raises(TopicNotFound):
        await catalog.delete(first)
    assert catalog.get("a") == second


async def test_growth_keeps_existing_streams(store: FaultyStore, catalog: TopicCatalog) -> None:
    before = await catalog.create(NewTopic("a", 2))
    streams = await partition_streams(store, "a")
    after = await catalog.add_partitions("a", 5, None)
    assert after.partitions == 5
    assert catalog.get("a") == after
    assert (await partition_streams(store, "a"))[:2] == streams
    assert await partition_streams(store, "a") == [before.stream(p) for p in range(5)]


@pytest.mark.parametrize(
    ("total", "assignments", "error", "message"),
    [
        (2, None, InvalidPartitionCount, "Topic already has 2 partition(s)."),
        (1, None, InvalidPartitionCount, "The topic a currently has 2 partition(s); 1 would not"),
        (-1, None, InvalidPartitionCount, "would not be an increase"),
        (100_001, None, InvalidPartitionCount, "limit"),
        (4, [(1,)], InvalidReplicaAssignment, "add 2 additional partition(s), but only 1"),
        (3, [(8,)], InvalidReplicaAssignment, "broker 8"),
        (4, [(1,), (1, 2)], InvalidReplicaAssignment, "consistent"),
    ],
)
async def test_wrong_growth_is_refused(
    store: FaultyStore,
    catalog: TopicCatalog,
    total: int,
    assignments: list[tuple[int, ...]] | None,
    error: type[TopicError],
    message: str,
) -> None:
    topic = await catalog.create(NewTopic("a", 2))
    revision = store.state.revision
    with pytest.raises(error) as caught:
        await catalog.add_partitions("a", total, assignments)
    assert message in str(caught.value)
    assert store.state.revision == revision
    assert catalog.get("a") == topic


async def test_growth_can_be_checked_only(store: FaultyStore, catalog: TopicCatalog) -> None:
    await catalog.create(NewTopic("a", 2))
    revision = store.state.revision
    assert (await catalog.add_partitions("a", 3, [(1,)], validate_only=True)).partitions == 3
    assert store.state.revision == revision


@pytest.mark.parametrize("name", ["nope", "", "a/partitions/0000000", "no name"])
async def test_changes_of_unknown_topics_are_not_found(catalog: TopicCatalog, name: str) -> None:
    await catalog.create(NewTopic("a"))
    with pytest.raises(TopicNotFound):
        await catalog.add_partitions(name, 9, None)
    with pytest.raises(TopicNotFound):
        await catalog.alter(name, {}, replace=False)


async def test_alter_sets_removes_and_replaces(catalog: TopicCatalog) -> None:
    await catalog.create(NewTopic("a", overrides={"retention.ms": "1", "segment.ms": "2"}))
    topic = await catalog.alter("a", {"retention.bytes": "3", "segment.ms": None}, replace=False)
    assert topic.overrides == {"retention.ms": "1", "retention.bytes": "3"}
    assert topic.settings.retention_bytes == 3
    topic = await catalog.alter("a", {"segment.ms": "9"}, replace=True)
    assert topic.overrides == {"segment.ms": "9"}
    assert catalog.get("a") == topic


async def test_a_bad_change_alters_nothing(store: FaultyStore, catalog: TopicCatalog) -> None:
    topic = await catalog.create(NewTopic("a", overrides={"retention.ms": "1"}))
    for change in ({"nope": "1"}, {"retention.ms": "x", "segment.ms": "5"}):
        with pytest.raises(InvalidConfig):
            await catalog.alter("a", change, replace=False)
    assert catalog.get("a") == topic
    assert (await catalog.alter("a", {"nope": None}, replace=False)) == topic


async def test_alter_can_be_checked_only_and_tied_to_a_version(catalog: TopicCatalog) -> None:
    topic = await catalog.create(NewTopic("a"))
    checked = await catalog.alter("a", {"segment.ms": "9"}, replace=False, validate_only=True)
    assert checked.overrides == {"segment.ms": "9"}
    assert catalog.get("a") == topic
    changed = await catalog.alter(
        "a", {"segment.ms": "9"}, replace=False, expect_version=topic.version
    )
    assert changed.version > topic.version
    with pytest.raises(ConcurrentChange):
        await catalog.alter("a", {"segment.ms": "8"}, replace=False, expect_version=topic.version)


async def test_two_thousand_partitions_take_few_writes(
    store: FaultyStore, catalog: TopicCatalog
) -> None:
    topic = await catalog.create(NewTopic("big", 2000))
    assert len([call for call in store.calls if call[0] in ("put", "commit")]) == 22
    await catalog.delete(topic)
    assert await store.keys_under(keys.TOPICS_PREFIX) == []


async def test_a_hundred_topics_at_once(store: FaultyStore, catalog: TopicCatalog) -> None:
    created = await asyncio.gather(*(catalog.create(NewTopic(f"t-{n}", 2)) for n in range(100)))
    assert len({topic.number for topic in created}) == 100
    assert len(list(catalog.all())) == 100
    await asyncio.gather(*(catalog.delete(topic) for topic in created))
    assert list(catalog.all()) == []
    assert await store.keys_under(keys.TOPICS_PREFIX) == []
    assert len(await store.keys_under(keys.DELETED_PREFIX)) == 100


async def test_one_name_created_many_times_at_once_exists_once(
    store: FaultyStore, catalog: TopicCatalog
) -> None:
    results = await asyncio.gather(
        *(catalog.create(NewTopic("a", n + 1)) for n in range(20)), return_exceptions=True
    )
    won = [result for result in results if not isinstance(result, BaseException)]
    assert len(won) == 1
    assert all(isinstance(r, TopicExists) for r in results if isinstance(r, BaseException))
    assert await partition_streams(store, "a") == [
        won[0].stream(p) for p in range(won[0].partitions)
    ]
