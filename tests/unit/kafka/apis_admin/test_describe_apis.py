"""DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

import pytest
from tests.unit.helpers_topics import Fault, FaultyStore
from tests.unit.kafka.apis_admin.helpers_admin import AdminRig, admin_rig

from towpath.kafka.apis import describe_cluster, describe_topic_partitions
from towpath.kafka.codec.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from towpath.kafka.codec.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from towpath.kafka.errors import ErrorCode
from towpath.kafka.services import KafkaSettings
from towpath.metadata.store import StoreUnavailable
from towpath.topics.interface import NewTopic

REGISTERED = (describe_cluster, describe_topic_partitions)
NO_OPERATIONS = -(1 << 31)
Page = list[tuple[str | None, int, list[int]]]


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described_in_every_version(version: int) -> None:
    store = FaultyStore()
    async with admin_rig(store) as rig, admin_rig(FaultyStore(store.state), broker_id=2):
        request = DescribeClusterRequest(include_fenced_brokers=version >= 2)
        response = await rig.call(request, DescribeClusterResponse, version)
        assert (response.error_code, response.error_message) == (0, None)
        assert (response.cluster_id, response.controller_id) == ("test-cluster", 1)
        assert response.endpoint_type == 1
        assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
            (1, "127.0.0.1", 9092, "r1"),
            (2, "127.0.0.1", 9092, "r1"),
        ]
        assert not any(broker.is_fenced for broker in response.brokers)
        assert response.cluster_authorized_operations == NO_OPERATIONS
        request.include_cluster_authorized_operations = True
        asked = await rig.call(request, DescribeClusterResponse, version)
        assert asked.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
     (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)  # fmt: skip
async def test_only_brokers_are_described(endpoint_type: int, code: ErrorCode) -> None:
    async with admin_rig() as rig:
        request = DescribeClusterRequest(endpoint_type=endpoint_type)
        response = await rig.call(request, DescribeClusterResponse, 2)
        assert response.error_code == code
        assert response.error_message
        assert response.brokers == []


async def page(
    rig: AdminRig,
    *names: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> tuple[Page, tuple[str, int] | None]:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response = await rig.call(request, DescribeTopicPartitionsResponse, 0)
    rows: Page = [
        (topic.name, topic.error_code, [p.partition_index for p in topic.partitions])
        for topic in response.topics
    ]
    following = response.next_cursor
    return rows, None if following is None else (following.topic_name, following.partition_index)


async def test_partitions_are_described_like_in_metadata() -> None:
    async with admin_rig() as rig:
        topic = await rig.catalog.create(NewTopic("a", 2))
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")])
        response = await rig.call(request, DescribeTopicPartitionsResponse, 0)
        (found,) = response.topics
        assert (found.name, found.topic_id, found.is_internal) == ("a", topic.topic_id, False)
        assert found.topic_authorized_operations == 3576
        for partition in found.partitions:
            assert (partition.leader_id, partition.leader_epoch) == (1, 0)
            assert partition.replica_nodes == partition.isr_nodes == [1]
            assert partition.eligible_leader_replicas == partition.last_known_elr == []
            assert partition.offline_replicas == []
        assert response.next_cursor is None


async def test_topics_come_sorted_and_unknown_ones_with_their_error() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("b", 1))
        await rig.catalog.create(NewTopic("a", 1))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await page(rig, "c", "b", "a b", "a", "a") == (
            [
                ("a", 0, [0]),
                ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
                ("b", 0, [0]),
                ("c", unknown, []),
            ],
            None,
        )
        assert await page(rig) == ([("a", 0, [0]), ("b", 0, [0])], None)


async def test_pages_cover_every_partition_once() -> None:
    async with admin_rig() as rig:
        for name, partitions in (("a", 3), ("b", 1), ("c", 5)):
            await rig.catalog.create(NewTopic(name, partitions))
        assert await page(rig, limit=3) == ([("a", 0, [0, 1, 2])], ("b", 0))
        for limit in (1, 2, 4, 9):
            seen: list[tuple[str | None, int]] = []
            cursor: tuple[str, int] | None = ("", 0)
            while cursor is not None:
                rows, cursor = await page(rig, limit=limit, cursor=cursor)
                seen += [(name, number) for name, _, numbers in rows for number in numbers]
                assert sum(len(numbers) for _, _, numbers in rows) <= limit
            assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0)] + [("c", n) for n in range(5)]


async def test_the_setting_caps_a_page_and_a_page_holds_at_least_one() -> None:
    settings = KafkaSettings(max_request_partition_size_limit=2)
    async with admin_rig(settings=settings) as rig:
        await rig.catalog.create(NewTopic("a", 3))
        assert await page(rig) == ([("a", 0, [0, 1])], ("a", 2))
        assert await page(rig, limit=0) == ([("a", 0, [0])], ("a", 1))
        assert await page(rig, limit=-5) == ([("a", 0, [0])], ("a", 1))


async def test_cursors() -> None:
    async with admin_rig() as rig:
        await rig.catalog.create(NewTopic("a", 3))
        await rig.catalog.create(NewTopic("c", 1))
        rest = [("a", 0, [2]), ("c", 0, [0])]
        assert await page(rig, cursor=("a", 2)) == (rest, None)
        assert await page(rig, "c", "a", cursor=("a", 2)) == (rest, None)
        assert await page(rig, cursor=("b", 7)) == ([("c", 0, [0])], None)
        assert await page(rig, cursor=("a", 50)) == ([("a", 0, []), ("c", 0, [0])], None)
        wrong = ErrorCode.INVALID_REQUEST
        assert await page(rig, "a", cursor=("c", 0)) == ([("a", wrong, [])], None)
        assert await page(rig, "a", cursor=("a", -1)) == ([("a", wrong, [])], None)


async def test_an_unreachable_store_calls_no_topic_missing_here_either() -> None:
    async with admin_rig() as rig:
        rig.store.faults.append(Fault("barrier", "", error=StoreUnavailable("down")))
        assert await page(rig, "a") == ([("a", ErrorCode.LEADER_NOT_AVAILABLE, [])], None)
