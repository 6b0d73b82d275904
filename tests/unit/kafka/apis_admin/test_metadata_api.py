"""Metadata: what clients learn about brokers and topics, in every version."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from tests.unit.helpers_topics import Fault, FaultyStore
from tests.unit.kafka.apis_admin.helpers_admin import AdminRig, admin_rig

from towpath.cluster.rendezvous import Rendezvous
from towpath.kafka.apis import metadata
from towpath.kafka.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from towpath.kafka.codec.schema import ZERO_UUID
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import KafkaSettings
from towpath.metadata.keys import topics as keys
from towpath.metadata.store import StoreUnavailable
from towpath.topics.interface import NewTopic

NO_OPERATIONS = -(1 << 31)


def by_name(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )


async def ask(rig: AdminRig, request: MetadataRequest, version: int = 13) -> MetadataResponse:
    return await rig.call(request, MetadataResponse, version)


@pytest.mark.parametrize("version", range(14))
async def test_every_version_describes_brokers_and_topics(version: int) -> None:
    async with admin_rig() as rig:
        topic = await rig.catalog.create(NewTopic("a", 3))
        response = await ask(rig, by_name("a", create=version < 4), version)
        (broker,) = response.brokers
        assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", 9092)
        (found,) = response.topics
        assert (found.error_code, found.name) == (0, "a")
        assert [p.partition_index for p in found.partitions] == [0, 1, 2]
        assert all((p.leader_id, p.replica_nodes, p.isr_nodes) == (1, [1], [1])
                   for p in found.partitions)  # fmt: skip
        assert all(p.offline_replicas == [] for p in found.partitions)
        if version >= 1:
            assert (response.controller_id, broker.rack) == (1, "r1")
        if version >= 2:
            assert response.cluster_id == "test-cluster"
        if version >= 7:
            assert all(p.leader_epoch == 0 for p in found.partitions)
        if version >= 10:
            assert found.topic_id == topic.topic_id


@pytest.mark.parametrize("version", [0, 1, 9, 13])
async def test_all_topics(version: int) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("b"))
        await rig.catalog.create(NewTopic("a"))
        await rig.catalog.create(NewTopic("__consumer_offsets"))
        request = MetadataRequest(topics=None if version else [])
        response = await ask(rig, request, version)
        assert [topic.name for topic in response.topics] == ["__consumer_offsets", "a", "b"]
        if version:
            assert [topic.is_internal for topic in response.topics] == [True, False, False]
            assert (await ask(rig, MetadataRequest(topics=[]), version)).topics == []


async def test_leaders_come_from_the_rendezvous_of_the_live_brokers() -> None:
    store = FaultyStore()
    async with admin_rig(store) as one:
        topic = await one.catalog.create(NewTopic("a", 30))
        async with admin_rig(FaultyStore(store.state), broker_id=2) as two:
            expected = Rendezvous([1, 2])
            for rig in (one, two):
                response = await ask(rig, by_name("a"))
                assert [broker.node_id for broker in response.brokers] == [1, 2]
                leaders = [p.leader_id for p in response.topics[0].partitions]
                assert leaders == [expected.owner(topic.stream(p)) for p in range(30)]
                assert set(leaders) == {1, 2}
        response = await ask(one, by_name("a"))
        assert {p.leader_id for p in response.topics[0].partitions} == {1}


async def test_what_is_remembered_of_a_topic_is_told_as_long_as_it_is_true() -> None:
    store = FaultyStore()
    async with admin_rig(store) as one:
        await one.catalog.create(NewTopic("a", 30))
        alone = await ask(one, by_name("a"))
        assert await ask(one, by_name("a")) == alone
        async with admin_rig(FaultyStore(store.state), broker_id=2):
            shared = await ask(one, by_name("a"))
            assert {p.leader_id for p in shared.topics[0].partitions} == {1, 2}
            wider = await one.catalog.add_partitions("a", 31, None)
            assert len((await ask(one, by_name("a"))).topics[0].partitions) == 31
            await one.catalog.delete(wider)
            await one.catalog.create(NewTopic("a", 30))
            again = (await ask(one, by_name("a"))).topics[0]
            assert again.topic_id != shared.topics[0].topic_id
            assert again.partitions != shared.topics[0].partitions


async def test_too_many_partitions_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "PARTITIONS_REMEMBERED_MAX", 50)
    async with admin_rig() as rig:
        for name in ("a", "b", "c"):
            await rig.catalog.create(NewTopic(name, 20))
            assert len((await ask(rig, by_name(name))).topics[0].partitions) == 20
        remembered = metadata._remembered[rig.cluster.view(None)]
        assert [len(partitions) for partitions in remembered.topics.values()] == [20]


async def test_another_brokers_topic_is_seen_at_once() -> None:
    store = FaultyStore()
    async with admin_rig(store) as one, admin_rig(FaultyStore(store.state), broker_id=2) as two:
        await two.catalog.create(NewTopic("a"))
        assert (await ask(one, by_name("a"))).topics[0].error_code == 0


async def test_a_missing_topic_is_created_when_asked() -> None:
    async with admin_rig() as rig:
        (missing,) = (await ask(rig, by_name("a"))).topics
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert missing.topic_id == ZERO_UUID
        (created,) = (await ask(rig, by_name("a", create=True))).topics
        assert (created.error_code, len(created.partitions)) == (0, 1)
        found = rig.catalog.get("a")
        assert found is not None
        assert created.topic_id == found.topic_id


@pytest.mark.parametrize("version", [0, 1, 3])
async def test_old_versions_always_create(version: int) -> None:
    async with admin_rig() as rig:
        await ask(rig, by_name("a", create=True), version)
        assert rig.catalog.get("a") is not None


async def test_nothing_is_created_when_the_setting_forbids_it() -> None:
    async with admin_rig(settings=KafkaSettings(auto_create_topics_enable=False)) as rig:
        (missing,) = (await ask(rig, by_name("a", create=True))).topics
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert rig.catalog.get("a") is None


@pytest.mark.parametrize("create", [True, False])
async def test_invalid_and_colliding_names(create: bool) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("x.y"))
        names = ("", "a b", "é", "x" * 250)
        for topic in (await ask(rig, by_name(*names, create=create))).topics:
            assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        (collision,) = (await ask(rig, by_name("x_y", create=create))).topics
        assert collision.error_code == (
            ErrorCode.INVALID_TOPIC_EXCEPTION if create else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        (reserved,) = (await ask(rig, by_name("__cluster_metadata", create=True))).topics
        assert reserved.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert [topic.name for topic in rig.catalog.all()] == ["x.y"]


async def test_one_new_topic_asked_for_by_many_at_once() -> None:
    async with admin_rig() as rig:
        answers = await asyncio.gather(*(ask(rig, by_name("a", create=True)) for _ in range(20)))
        ids = {answer.topics[0].topic_id for answer in answers}
        assert len(ids) == 1
        assert all(answer.topics[0].error_code == 0 for answer in answers)


async def test_a_name_asked_for_twice_is_answered_once() -> None:
    async with admin_rig() as rig:
        response = await ask(rig, by_name("a", "b", "a", create=True))
        assert [topic.name for topic in response.topics] == ["a", "b"]


@pytest.mark.parametrize("version", [12, 13])
async def test_topics_by_id(version: int) -> None:
    async with admin_rig() as rig:
        topic = await rig.catalog.create(NewTopic("a"))
        unknown = uuid.UUID(int=77)
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(topic_id=topic.topic_id, name=None),
                MetadataRequestTopic(topic_id=unknown, name=None),
                MetadataRequestTopic(topic_id=topic.topic_id, name="ignored"),
                MetadataRequestTopic(name=None),
            ],
        )
        found, missing, neither = (await ask(rig, request, version)).topics
        assert (found.error_code, found.name) == (0, "a")
        assert (missing.error_code, missing.name, missing.topic_id) == (
            ErrorCode.UNKNOWN_TOPIC_ID,
            None,
            unknown,
        )
        assert neither.error_code == ErrorCode.INVALID_REQUEST
        assert rig.catalog.get("ignored") is None


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_and_null_names_are_refused_before_v12(version: int) -> None:
    async with admin_rig() as rig:
        topic = await rig.catalog.create(NewTopic("a"))
        for asked in (
            MetadataRequestTopic(topic_id=topic.topic_id, name="a"),
            MetadataRequestTopic(name=None),
        ):
            (answer,) = (await ask(rig, MetadataRequest(topics=[asked]), version)).topics
            assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "cluster", "topic"),
    [(8, 8096, 3576), (10, 8096, 3576), (11, NO_OPERATIONS, 3576), (13, NO_OPERATIONS, 3576)],
)
async def test_authorized_operations_only_when_asked(
    version: int, cluster: int, topic: int
) -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        plain = await ask(rig, by_name("a"), version)
        assert plain.cluster_authorized_operations == NO_OPERATIONS
        assert plain.topics[0].topic_authorized_operations == NO_OPERATIONS
        request = by_name("a")
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
        asked = await ask(rig, request, version)
        assert asked.cluster_authorized_operations == cluster
        assert asked.topics[0].topic_authorized_operations == topic


async def test_an_unreachable_store_leaves_known_topics_and_calls_none_missing() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a"))
        down = StoreUnavailable("down")
        rig.store.faults.append(Fault("barrier", "", error=down))
        known, unknown = (await ask(rig, by_name("a", "b", create=True))).topics
        assert known.error_code == 0
        assert unknown.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        rig.store.faults.append(Fault("barrier", "", error=down))
        asked = MetadataRequestTopic(topic_id=uuid.UUID(int=5), name=None)
        (by_id,) = (await ask(rig, MetadataRequest(topics=[asked]))).topics
        assert by_id.error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_creation_that_fails_may_be_tried_again() -> None:
    async with admin_rig() as rig:
        fault = Fault("put", keys.NEXT_NUMBER, error=StoreUnavailable("down"))
        rig.store.faults.append(fault)
        (failed,) = (await ask(rig, by_name("a", create=True))).topics
        assert failed.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        (created,) = (await ask(rig, by_name("a", create=True))).topics
        assert created.error_code == 0
