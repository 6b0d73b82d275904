"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

import uuid

import pytest
from tests.unit.helpers_topics import Fault
from tests.unit.kafka.apis_admin.helpers_admin import AdminRig, admin_rig

from towpath.kafka.apis import create_partitions, create_topics, delete_topics
from towpath.kafka.codec.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from towpath.kafka.codec.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from towpath.kafka.codec.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from towpath.kafka.codec.schema import ZERO_UUID
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import StoreUnavailable
from towpath.topics.configs import SETTINGS
from towpath.topics.interface import NewTopic

REGISTERED = (create_partitions, create_topics, delete_topics)


def new(name: str, partitions: int = 2, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def assigned(name: str, *rows: tuple[int, list[int]], **fields: int) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=fields.get("partitions", -1),
        replication_factor=fields.get("factor", -1),
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in rows
        ],
    )


async def create(
    rig: AdminRig, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return (await rig.call(request, CreateTopicsResponse, version)).topics


async def delete(
    rig: AdminRig, *states: DeleteTopicState, version: int = 6
) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(topics=list(states))
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[state.name or "" for state in states])
    return (await rig.call(request, DeleteTopicsResponse, version)).responses


@pytest.mark.parametrize("version", range(2, 8))
async def test_topics_are_created_in_every_version(version: int) -> None:
    async with admin_rig() as rig:
        (result,) = await create(rig, new("a", 3, retention_ms="5"), version=version)
        topic = rig.catalog.get("a")
        assert topic is not None
        assert (result.name, result.error_code, result.error_message) == ("a", 0, None)
        assert (topic.partitions, topic.settings.retention_ms) == (3, 5)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            assert result.configs is not None
            rows = {row.name: row for row in result.configs}
            assert list(rows) == list(SETTINGS)
            assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("5", 1)
            assert rows["cleanup.policy"].config_source == 5
        if version >= 7:
            assert result.topic_id == topic.topic_id


async def test_validate_only_creates_nothing() -> None:
    async with admin_rig() as rig:
        good, bad = await create(rig, new("a"), new("b", 0), validate_only=True)
        assert (good.error_code, good.num_partitions, good.topic_id) == (0, 2, ZERO_UUID)
        assert bad.error_code == ErrorCode.INVALID_PARTITIONS
        assert list(rig.catalog.all()) == []


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (new("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (new("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (new("x_y"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: x.y"),
        (new("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (new("a", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (new("a", factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (new("a", nope="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (new("a", retention_ms="x"), ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (new("a", retention_ms=None), ErrorCode.INVALID_CONFIG, "Null value not supported"),
        (assigned("a", (0, [9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        (assigned("a", (0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple"),
        (assigned("a", (1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (assigned("a", (0, [1]), factor=1), ErrorCode.INVALID_REQUEST, "replication factor was"),
        (assigned("a", (0, [1]), partitions=1), ErrorCode.INVALID_REQUEST, "numPartitions was"),
    ],
)
async def test_a_wrong_topic_gets_kafkas_error_and_the_next_one_is_created(
    topic: CreatableTopic, code: ErrorCode, message: str
) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("there"))
        await rig.catalog.create(NewTopic("x.y"))
        bad, good = await create(rig, topic, new("good"))
        assert bad.error_code == code
        assert message in (bad.error_message or "")
        assert (bad.num_partitions, bad.configs) == (-1, [])
        assert good.error_code == 0
        assert [found.name for found in rig.catalog.all()] == ["good", "there", "x.y"]


async def test_minus_one_and_assignments_choose_the_partitions() -> None:
    async with admin_rig() as rig:
        first, second = await create(
            rig, new("a", -1, -1), assigned("b", (1, [1]), (0, [1]), (2, [1]))
        )
        assert (first.num_partitions, second.num_partitions) == (1, 3)


async def test_a_name_given_twice_is_refused_once() -> None:
    async with admin_rig() as rig:
        good, twice = await create(rig, new("a"), new("b"), new("a", 9))
        assert (good.name, good.error_code) == ("b", 0)
        assert (twice.name, twice.error_code) == ("a", ErrorCode.INVALID_REQUEST)
        assert twice.error_message == "Duplicate topic name."
        assert rig.catalog.get("a") is None


async def test_a_hundred_topics_in_one_request() -> None:
    async with admin_rig() as rig:
        created = await create(rig, *(new(f"t{n}") for n in range(100)))
        assert [result.name for result in created] == [f"t{n}" for n in range(100)]
        assert all(result.error_code == 0 for result in created)
        deleted = await delete(rig, *(DeleteTopicState(name=f"t{n}") for n in range(100)))
        assert all(result.error_code == 0 for result in deleted)
        assert list(rig.catalog.all()) == []


async def test_a_failing_store_is_answered_per_topic() -> None:
    async with admin_rig() as rig:
        down = StoreUnavailable("down")
        rig.store.faults.append(Fault("commit", keys.partition("a", 0), error=down))
        failed, created = await create(rig, new("a"), new("b"))
        assert failed.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert created.error_code == 0
        rig.store.faults.append(Fault("barrier", "", error=down))
        (kept,) = await delete(rig, DeleteTopicState(name="b"))
        assert kept.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert rig.catalog.get("b") is not None


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name_in_every_version(version: int) -> None:
    async with admin_rig() as rig:
        topic = await rig.catalog.create(NewTopic("a"))
        good, missing = await delete(
            rig, DeleteTopicState(name="a"), DeleteTopicState(name="nope"), version=version
        )
        assert (good.name, good.error_code) == ("a", 0)
        assert (missing.name, missing.error_code) == ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert rig.catalog.get("a") is None
        if version >= 6:
            assert good.topic_id == topic.topic_id


async def test_topics_are_deleted_by_id() -> None:
    async with admin_rig() as rig:
        topic = await rig.catalog.create(NewTopic("a"))
        unknown = uuid.UUID(int=99)
        good, missing = await delete(
            rig, DeleteTopicState(topic_id=topic.topic_id), DeleteTopicState(topic_id=unknown)
        )
        assert (good.name, good.topic_id, good.error_code) == ("a", topic.topic_id, 0)
        assert (missing.name, missing.topic_id) == (None, unknown)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        (again,) = await delete(rig, DeleteTopicState(topic_id=topic.topic_id))
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_wrong_deletions_are_refused_and_nothing_is_deleted() -> None:
    async with admin_rig() as rig:
        a = await rig.catalog.create(NewTopic("a"))
        b = await rig.catalog.create(NewTopic("b"))
        cases: list[tuple[list[DeleteTopicState], str]] = [
            ([DeleteTopicState()], "Neither topic name nor id were specified."),
            ([DeleteTopicState(name="a", topic_id=a.topic_id)], "You may not specify both"),
            ([DeleteTopicState(name="a")] * 2, "Duplicate topic name."),
            ([DeleteTopicState(topic_id=a.topic_id)] * 2, "Duplicate topic id."),
            (
                [DeleteTopicState(name="b"), DeleteTopicState(topic_id=b.topic_id)],
                "maps to an ID that was already supplied",
            ),
        ]
        for states, message in cases:
            for result in await delete(rig, *states):
                assert result.error_code == ErrorCode.INVALID_REQUEST
                assert message in (result.error_message or "")
        assert [topic.name for topic in rig.catalog.all()] == ["a", "b"]


def growth(name: str, count: int, *ids: list[int]) -> CreatePartitionsTopic:
    rows = [CreatePartitionsAssignment(broker_ids=row) for row in ids]
    return CreatePartitionsTopic(name=name, count=count, assignments=rows or None)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_grow_in_every_version(version: int) -> None:
    async with admin_rig() as rig:
        before = await rig.catalog.create(NewTopic("a", 1))
        await rig.catalog.create(NewTopic("b", 2))
        request = CreatePartitionsRequest(
            topics=[growth("a", 3), growth("b", 2), growth("c", 2), growth("d", 1), growth("d", 2)]
        )
        results = (await rig.call(request, CreatePartitionsResponse, version)).results
        assert {(row.name, row.error_code) for row in results} == {
            ("a", 0),
            ("b", ErrorCode.INVALID_PARTITIONS),
            ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("d", ErrorCode.INVALID_REQUEST),
        }
        messages = {row.name: row.error_message for row in results}
        assert messages["a"] is None
        assert messages["b"] == "Topic already has 2 partition(s)."
        assert messages["d"] == "Duplicate topic name."
        after = rig.catalog.get("a")
        assert after is not None
        assert (after.partitions, after.stream(0)) == (3, before.stream(0))


async def test_growth_with_assignments_and_validate_only() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a", 1))
        for topic, validate_only, code in [
            (growth("a", 3, [1]), False, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (growth("a", 2, [5]), False, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (growth("a", 2, [1]), True, ErrorCode.NONE),
            (growth("a", 2, [1]), False, ErrorCode.NONE),
        ]:
            request = CreatePartitionsRequest(topics=[topic], validate_only=validate_only)
            (row,) = (await rig.call(request, CreatePartitionsResponse, 3)).results
            assert row.error_code == code
            found = rig.catalog.get("a")
            assert found is not None
            assert found.partitions == (2 if code == 0 and not validate_only else 1)
