"""What clients with a zone in their `client.id` are told: brokers, leaders, coordinators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.unit.helpers_topics import FaultyStore
from tests.unit.kafka.apis_admin.helpers_admin import AdminRig, admin_rig
from tests.unit.kafka.apis_admin.helpers_leases import LeasesOnly

from towpath.cluster.rendezvous import Rendezvous, key_hash
from towpath.groups.interface import Groups
from towpath.kafka.codec.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from towpath.kafka.codec.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from towpath.kafka.codec.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from towpath.kafka.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from towpath.topics.interface import NewTopic

PARTITIONS = 40
ZONES = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
EVERYONE = [1, 2, 3, 4, 5, 6]
SEEN_BY = [
    ("zone_id=a", [1, 4]),
    ("zone_id=b,app=x", [2, 5]),
    ("zone_id=nowhere", EVERYONE),
    ("plain", EVERYONE),
]


@asynccontextmanager
async def six_brokers(groups: Groups | None = None) -> AsyncIterator[list[AdminRig]]:
    """Brokers 1 to 6 of one cluster, in zones a, b, c, a, b, c."""
    state = FaultyStore().state
    async with AsyncExitStack() as stack:
        rigs = []
        for broker_id, zone in ZONES.items():
            rig = admin_rig(
                FaultyStore(state), broker_id=broker_id, zone=zone, rack=None, groups=groups
            )
            rigs.append(await stack.enter_async_context(rig))
        yield rigs


@pytest.mark.parametrize(("client_id", "shown"), SEEN_BY)
async def test_metadata_shows_the_zone_at_every_broker(client_id: str, shown: list[int]) -> None:
    async with six_brokers() as rigs:
        topic = await rigs[0].catalog.create(NewTopic("t", PARTITIONS))
        expected = Rendezvous(shown)
        for rig in rigs:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            answer = await rig.call(request, MetadataResponse, 13, client_id)
            assert [broker.node_id for broker in answer.brokers] == shown
            assert answer.controller_id in shown
            (found,) = answer.topics
            leaders = [partition.leader_id for partition in found.partitions]
            assert leaders == [expected.owner(topic.stream(p)) for p in range(PARTITIONS)]
            assert set(leaders) == set(shown)
            assert all(p.replica_nodes == p.isr_nodes == [p.leader_id] for p in found.partitions)


@pytest.mark.parametrize(("client_id", "shown"), SEEN_BY)
async def test_cluster_and_partitions_are_described_alike(client_id: str, shown: list[int]) -> None:
    async with six_brokers() as rigs:
        topic = await rigs[2].catalog.create(NewTopic("t", PARTITIONS))
        cluster = await rigs[5].call(
            DescribeClusterRequest(), DescribeClusterResponse, 2, client_id
        )
        assert [broker.broker_id for broker in cluster.brokers] == shown
        assert cluster.controller_id in shown
        request = DescribeTopicPartitionsRequest(response_partition_limit=1000)
        paged = await rigs[5].call(request, DescribeTopicPartitionsResponse, 0, client_id)
        expected = Rendezvous(shown)
        for partition in paged.topics[0].partitions:
            assert partition.leader_id == expected.owner(topic.stream(partition.partition_index))
            assert partition.replica_nodes == [partition.leader_id]


async def test_a_zone_that_dies_falls_back_to_all() -> None:
    state = FaultyStore().state
    async with admin_rig(FaultyStore(state), broker_id=1, zone="a") as one:
        async with admin_rig(FaultyStore(state), broker_id=2, zone="b"):
            answer = await one.call(
                DescribeClusterRequest(), DescribeClusterResponse, 2, "zone_id=b"
            )
            assert [broker.broker_id for broker in answer.brokers] == [2]
        answer = await one.call(DescribeClusterRequest(), DescribeClusterResponse, 2, "zone_id=b")
        assert [broker.broker_id for broker in answer.brokers] == [1]


async def test_replicas_of_every_rack_are_shown() -> None:
    state = FaultyStore().state
    async with (
        admin_rig(FaultyStore(state), broker_id=1, rack="r1") as rig,
        admin_rig(FaultyStore(state), broker_id=2, rack="r2"),
    ):
        await rig.catalog.create(NewTopic("t", PARTITIONS))
        answer = await rig.call(MetadataRequest(topics=None), MetadataResponse, 13)
        for partition in answer.topics[0].partitions:
            assert partition.replica_nodes[0] == partition.leader_id
            assert sorted(partition.replica_nodes) == sorted(partition.isr_nodes) == [1, 2]


# Coordinators


async def coordinators(rig: AdminRig, groups: Sequence[str], client_id: str) -> list[int]:
    """The node of each group, asked for together and, which must agree, one by one."""
    request = FindCoordinatorRequest(coordinator_keys=list(groups))
    answer = await rig.call(request, FindCoordinatorResponse, 6, client_id)
    found = [coordinator.node_id for coordinator in answer.coordinators]
    for group, node_id in zip(groups, found, strict=True):
        one = await rig.call(
            FindCoordinatorRequest(key=group), FindCoordinatorResponse, 3, client_id
        )
        assert one.node_id == node_id
    return found


@pytest.mark.parametrize(("client_id", "shown"), SEEN_BY)
async def test_a_group_without_a_lease_has_its_candidate(client_id: str, shown: list[int]) -> None:
    names = [f"g{number}" for number in range(20)]
    async with six_brokers(LeasesOnly()) as rigs:
        expected = [Rendezvous(shown).owner(key_hash(name)) for name in names]
        assert await coordinators(rigs[0], names, client_id) == expected
        assert await coordinators(rigs[4], names, client_id) == expected


async def test_the_lease_holder_is_named_to_clients_that_are_shown_it() -> None:
    leases = LeasesOnly()
    leases.holders = {"in-b": 5, "gone": 99}
    async with six_brokers(leases) as rigs:
        names = ["in-b", "gone"]
        candidates = {zone: Rendezvous(ids) for zone, ids in (("a", [1, 4]), ("b", [2, 5]))}
        gone = key_hash("gone")
        assert await coordinators(rigs[0], names, "zone_id=b") == [5, candidates["b"].owner(gone)]
        everyone = Rendezvous(EVERYONE)
        for client_id in ("plain", "zone_id=nowhere"):
            assert await coordinators(rigs[0], names, client_id) == [5, everyone.owner(gone)]
        elsewhere = candidates["a"].owner(key_hash("in-b"))
        assert (await coordinators(rigs[0], names, "zone_id=a"))[0] == elsewhere


async def test_without_the_store_the_candidate_is_good_enough() -> None:
    leases = LeasesOnly()
    leases.holders, leases.away = {"g": 2}, True
    async with six_brokers(leases) as rigs:
        expected = [Rendezvous(EVERYONE).owner(key_hash("g"))]
        assert await coordinators(rigs[0], ["g"], "plain") == expected
