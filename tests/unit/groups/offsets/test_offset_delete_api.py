"""OffsetDelete: what may go and what is in use."""

from __future__ import annotations

import pytest
from tests.unit.groups.offsets.helpers_offsets import OffsetsRig, classic_group, offsets_rig
from tests.unit.helpers_topics import Fault

from towpath.groups.classic.state import Phase
from towpath.groups.consumer.member import Member
from towpath.groups.consumer.state import ConsumerGroup
from towpath.kafka.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.store import StoreUnavailable

OFFSETS = {("a", 0): 10, ("a", 2): 12, ("b", 0): 7}
Codes = dict[tuple[str, int], int]


async def delete(rig: OffsetsRig, group_id: str, *wanted: tuple[str, int]) -> tuple[int, Codes]:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for name, number in wanted:
        topic = topics.setdefault(name, OffsetDeleteRequestTopic(name=name))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=number))
    request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))
    answer = await rig.call(request, OffsetDeleteResponse, 0)
    codes = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }
    return answer.error_code, codes


async def test_offsets_of_an_empty_group_go() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        wanted = [("a", 0), ("a", 1), ("b", 0)]
        assert await delete(rig, "g", *wanted) == (0, dict.fromkeys(wanted, 0))
        assert await rig.fetch("g", None) == {("a", 2): 12}
        assert await delete(rig, "g") == (0, {})


async def test_unknown_partitions_and_topics() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await delete(rig, "g", ("a", 0), ("a", 3), ("no", 0)) == (
            0,
            {("a", 0): 0, ("a", 3): unknown, ("no", 0): unknown},
        )


@pytest.mark.parametrize(
    ("group_id", "code"),
    [
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_GROUP_ID),
        ("x" * 4000, ErrorCode.INVALID_GROUP_ID),
    ],
)
async def test_groups_that_are_not_there(group_id: str, code: ErrorCode) -> None:
    async with offsets_rig() as rig:
        assert await delete(rig, group_id, ("a", 0), ("no", 0)) == (code, {})


@pytest.mark.parametrize("phase", [Phase.STABLE, Phase.PREPARING, Phase.COMPLETING])
async def test_topics_of_consumers_are_in_use(phase: Phase) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        await rig.set_group("g", classic_group(3, "m", phase=phase, topics=["a"]))
        assert await delete(rig, "g", ("a", 0), ("b", 0)) == (
            0,
            {("a", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("b", 0): 0},
        )
        assert await rig.fetch("g", None) == {("a", 0): 10, ("a", 2): 12}


async def test_topics_of_the_consumer_protocol_are_in_use() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        member = Member("m", 0, epoch=6, topic_names=frozenset({"b"}))
        await rig.set_group("g", ConsumerGroup(epoch=6, assignment_epoch=6, members={"m": member}))
        assert await delete(rig, "g", ("a", 0), ("b", 0)) == (
            0,
            {("a", 0): 0, ("b", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
        )


async def test_members_that_are_no_consumers_keep_everything() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        await rig.set_group("g", classic_group(3, "m", protocol_type="connect"))
        assert await delete(rig, "g", ("a", 0)) == (ErrorCode.NON_EMPTY_GROUP, {})
        await rig.set_group("g", classic_group(3, phase=Phase.EMPTY, protocol_type="connect"))
        assert await delete(rig, "g", ("a", 0)) == (0, {("a", 0): 0})


async def test_a_member_that_joins_meanwhile_is_seen() -> None:
    async with offsets_rig() as one, offsets_rig(type(one.store)(one.store.state)) as two:
        await one.commit("g", OFFSETS)
        one.store.faults.append(
            Fault("commit", "/offsets/", action=lambda: two.set_group("g", classic_group(1, "m")))
        )
        assert await delete(one, "g", ("a", 0), ("b", 0)) == (
            0,
            {("a", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("b", 0): 0},
        )
        assert await one.fetch("g", None) == {("a", 0): 10, ("a", 2): 12}


async def test_without_the_store() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        rig.store.faults.append(Fault("commit", "/offsets/", error=StoreUnavailable("x")))
        assert await delete(rig, "g", ("a", 0)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
        rig.store.faults.append(Fault("barrier", "", error=StoreUnavailable("x")))
        assert await delete(rig, "g", ("no", 0)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
        assert await rig.fetch("g", None) == OFFSETS


async def test_deleting_the_group_removes_its_offsets() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        await rig.set_group("g", None)
        assert await rig.fetch("g", None) == {}
        assert await rig.store.keys_under("/dray/v1/groups/g/offsets/") == []
        await rig.commit("g", {("a", 0): 1})
        assert await rig.fetch("g", None) == {("a", 0): 1}
