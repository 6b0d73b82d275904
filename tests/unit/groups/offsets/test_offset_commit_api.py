"""OffsetCommit: every version, every refusal, and what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.groups.offsets.helpers_offsets import (
    START_MS,
    OffsetsRig,
    classic_group,
    offsets_rig,
)
from tests.unit.helpers_topics import Fault

from towpath.groups.classic.state import Phase
from towpath.groups.consumer.member import Member
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.settings import GroupSettings
from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from towpath.kafka.codec.schema import ZERO_UUID
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.offsets import CommittedOffset
from towpath.metadata.store import StoreUnavailable
from towpath.topics.interface import NewTopic

VERSIONS = range(2, 11)


async def stored(rig: OffsetsRig, group_id: str, topic: str, number: int) -> CommittedOffset:
    row = await rig.store.get(keys.offset(group_id, topic, number))
    assert row is not None
    return CommittedOffset.decode(row.value)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_commits_for_a_member(version: int) -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(4, "m"))
        offsets = {("a", 0): 10, ("a", 2): 12, ("b", 0): 7}
        codes = await rig.commit(
            "g",
            offsets,
            version,
            member_id="m",
            generation_id_or_member_epoch=4,
            leader_epoch=3,
            metadata="note",
        )
        assert codes == [0, 0, 0]
        assert await rig.fetch("g", list(offsets)) == offsets
        found = await stored(rig, "g", "a", 2)
        assert (found.offset, found.metadata, found.generation) == (12, "note", 4)
        assert found.leader_epoch == (3 if version >= 6 else -1)
        assert (found.commit_timestamp_ms, found.expire_timestamp_ms) == (START_MS, None)
        topic = rig.catalog.get("a")
        assert topic is not None
        assert found.topic_id == topic.topic_id
        assert rig.released == [1]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_first_commit_from_outside_makes_the_group(version: int) -> None:
    async with offsets_rig() as rig:
        assert await rig.commit("simple", {("a", 1): 5}, version) == [0]
        (listed,) = await rig.groups.list_groups()
        assert (listed.group_id, listed.state_name, listed.protocol_type) == ("simple", "Empty", "")
        assert await rig.fetch("simple", None) == {("a", 1): 5}
        assert (await stored(rig, "simple", "a", 1)).generation == -1


@pytest.mark.parametrize("group_id", ["", "a/b", "ü%"])
async def test_group_ids_of_any_kind(group_id: str) -> None:
    async with offsets_rig() as rig:
        assert await rig.commit(group_id, {("a", 1): 5}) == [0]
        assert await rig.fetch(group_id, [("a", 1)]) == {("a", 1): 5}


async def test_a_group_id_that_fits_no_key() -> None:
    async with offsets_rig() as rig:
        assert await rig.commit("x" * 4000, {("a", 1): 5}) == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", [4, 5])
async def test_a_retention_of_its_own(version: int) -> None:
    async with offsets_rig() as rig:
        assert await rig.commit("g", {("a", 0): 1}, version, retention_time_ms=5000) == [0]
        expires_ms = (await stored(rig, "g", "a", 0)).expire_timestamp_ms
        assert expires_ms == (START_MS + 5000 if version <= 4 else None)


async def test_the_default_retention_is_the_brokers() -> None:
    async with offsets_rig() as rig:
        assert await rig.commit("g", {("a", 0): 1}, 3, retention_time_ms=-1) == [0]
        assert (await stored(rig, "g", "a", 0)).expire_timestamp_ms is None


async def test_null_metadata_is_empty() -> None:
    async with offsets_rig() as rig:
        assert await rig.commit("g", {("a", 0): 1}, metadata=None) == [0]
        assert (await stored(rig, "g", "a", 0)).metadata == ""


# Refusals of the group


@pytest.mark.parametrize(
    ("version", "code"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
async def test_a_generation_of_no_group(version: int, code: ErrorCode) -> None:
    async with offsets_rig() as rig:
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 1}
        assert await rig.commit("g", {("a", 0): 1}, version, **fields) == [code]
        assert await rig.groups.list_groups() == []


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "code"),
    [
        ("m", None, 3, ErrorCode.ILLEGAL_GENERATION),
        ("m", None, 5, ErrorCode.ILLEGAL_GENERATION),
        ("other", None, 4, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", "i", 4, ErrorCode.NONE),
        ("old", "i", 4, ErrorCode.FENCED_INSTANCE_ID),
        ("m", "j", 4, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_who_may_commit(
    member_id: str, instance_id: str | None, generation: int, code: ErrorCode
) -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(4, "m", instance_id="i"))
        codes = await rig.commit(
            "g",
            {("a", 0): 1},
            member_id=member_id,
            group_instance_id=instance_id,
            generation_id_or_member_epoch=generation,
        )
        assert codes == [code]
        assert (await rig.fetch("g", None) == {}) == bool(code)


@pytest.mark.parametrize(
    ("phase", "code"),
    [(Phase.PREPARING, ErrorCode.NONE), (Phase.COMPLETING, ErrorCode.REBALANCE_IN_PROGRESS)],
)
async def test_commits_during_a_rebalance(phase: Phase, code: ErrorCode) -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(4, "m", phase=phase))
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 4}
        assert await rig.commit("g", {("a", 0): 1}, **fields) == [code]


async def test_an_empty_group_takes_commits_from_outside_only() -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(4, phase=Phase.EMPTY))
        assert await rig.commit("g", {("a", 0): 1}) == [0]
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 4}
        assert await rig.commit("g", {("a", 0): 2}, **fields) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize(
    ("version", "member_id", "epoch", "code"),
    [
        (9, "m", 6, ErrorCode.NONE),
        (10, "m", 6, ErrorCode.NONE),
        (8, "m", 6, ErrorCode.UNSUPPORTED_VERSION),
        (9, "m", 5, ErrorCode.STALE_MEMBER_EPOCH),
        (9, "m", 7, ErrorCode.STALE_MEMBER_EPOCH),
        (9, "x", 6, ErrorCode.UNKNOWN_MEMBER_ID),
        (9, "", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_member_epochs_of_the_consumer_protocol(
    version: int, member_id: str, epoch: int, code: ErrorCode
) -> None:
    async with offsets_rig() as rig:
        member = Member("m", 0, epoch=6, topic_names=frozenset({"a"}))
        await rig.set_group("g", ConsumerGroup(epoch=6, assignment_epoch=6, members={"m": member}))
        fields: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
        assert await rig.commit("g", {("a", 0): 1}, version, **fields) == [code]


# Refusals of partitions


async def test_unknown_partitions_fail_alone_and_come_first() -> None:
    async with offsets_rig() as rig:
        answer = await rig.call(
            rig.commit_request(
                "g", {("a", 0): 1, ("a", 3): 1, ("a", -1): 1, ("b", 0): 2, ("no", 0): 3}, 9
            ),
            OffsetCommitResponse,
            9,
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [
            (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions])
            for topic in answer.topics
        ] == [
            ("a", [(3, unknown), (-1, unknown), (0, 0)]),
            ("no", [(0, unknown)]),
            ("b", [(0, 0)]),
        ]
        assert await rig.fetch("g", None) == {("a", 0): 1, ("b", 0): 2}


async def test_nothing_that_exists_asks_no_group() -> None:
    async with offsets_rig() as rig:
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 9}
        codes = await rig.commit("g", {("no", 0): 1}, **fields)
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        answer = await rig.call(OffsetCommitRequest(group_id="g"), OffsetCommitResponse, 9)
        assert answer.topics == []
        assert await rig.groups.list_groups() == []


async def test_unknown_topic_ids() -> None:
    async with offsets_rig() as rig:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitRequestTopic(partitions=[partition])]
        )
        answer = await rig.call(request, OffsetCommitResponse, 10)
        (topic,) = answer.topics
        assert topic.topic_id == ZERO_UUID
        assert [p.error_code for p in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_a_topic_that_another_broker_has_just_made_is_known() -> None:
    async with offsets_rig() as one, offsets_rig(type(one.store)(one.store.state)) as two:
        await two.catalog.create(NewTopic("new", 2))
        assert await one.commit("g", {("new", 1): 1}) == [0]


async def test_metadata_that_is_too_long_fails_its_partition_alone() -> None:
    async with offsets_rig(settings=GroupSettings(offset_metadata_max_bytes=4)) as rig:
        request = rig.commit_request("g", {("a", 0): 1, ("a", 1): 2}, 9)
        request.topics[0].partitions[0].committed_metadata = "12345"
        request.topics[0].partitions[1].committed_metadata = "1234"
        answer = await rig.call(request, OffsetCommitResponse, 9)
        codes = [partition.error_code for partition in answer.topics[0].partitions]
        assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]
        assert await rig.fetch("g", None) == {("a", 1): 2}


async def test_of_a_partition_named_twice_the_last_counts() -> None:
    async with offsets_rig() as rig:
        request = rig.commit_request("g", {("a", 0): 1}, 9)
        request.topics[0].partitions.append(
            OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
        )
        answer = await rig.call(request, OffsetCommitResponse, 9)
        assert [p.error_code for p in answer.topics[0].partitions] == [0, 0]
        assert await rig.fetch("g", None) == {("a", 0): 2}


# Failures


async def test_without_the_store_the_client_is_told_to_try_again() -> None:
    async with offsets_rig() as rig:
        assert await rig.commit("g", {("a", 0): 1}) == [0]
        rig.store.faults.append(Fault("commit", "/offsets/", error=StoreUnavailable("x")))
        assert await rig.commit("g", {("a", 0): 2}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await rig.fetch("g", None) == {("a", 0): 1}
        rig.store.faults.append(Fault("barrier", "", error=StoreUnavailable("x")))
        assert await rig.commit("new", {("a", 0): 2}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        rig.store.faults.append(Fault("barrier", "", error=StoreUnavailable("x")))
        assert await rig.commit("g", {("no", 0): 2}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await rig.commit("g", {("a", 0): 2}) == [0]


async def test_a_commit_counts_as_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    async with offsets_rig() as rig:
        await rig.set_group("g", classic_group(4, "m"))
        seen: list[tuple[str, str]] = []
        monkeypatch.setattr(rig.groups, "seen", lambda group, member: seen.append((group, member)))
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 4}
        assert await rig.commit("g", {("a", 0): 1}, **fields) == [0]
        assert seen == [("g", "m")]
        assert await rig.commit("other", {("a", 0): 1}) == [0]
        assert seen == [("g", "m")]
