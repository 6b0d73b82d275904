"""OffsetFetch: every version, several groups, members, and topics that are gone."""

from __future__ import annotations

import uuid

import pytest
from tests.unit.groups.offsets.helpers_offsets import classic_group, offsets_rig
from tests.unit.helpers_topics import Fault

from towpath.groups.consumer.member import Member
from towpath.groups.consumer.state import ConsumerGroup
from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from towpath.kafka.errors import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import StoreUnavailable
from towpath.topics.interface import NewTopic

VERSIONS = range(1, 11)
OFFSETS = {("a", 0): 10, ("a", 2): 12, ("b", 0): 7}


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_fetches_some(version: int) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        wanted = [("a", 0), ("a", 1), ("b", 0)]
        found = await rig.fetch("g", wanted, version)
        assert found == {("a", 0): 10, ("a", 1): -1, ("b", 0): 7}
        assert await rig.fetch("g", [("a", 2)], version) == {("a", 2): 12}
        assert await rig.fetch("g", [], version) == {}


@pytest.mark.parametrize("version", range(2, 11))
async def test_every_version_since_2_fetches_all(version: int) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        assert await rig.fetch("g", None, version) == OFFSETS
        assert await rig.fetch("nobody", None, version) == {}


@pytest.mark.parametrize("version", VERSIONS)
async def test_fields_of_a_partition(version: int) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 10}, leader_epoch=3, metadata="note")
        request = rig.fetch_request("g", [("a", 0), ("a", 1)], version)
        answer = await rig.call(request, OffsetFetchResponse, version)
        topics = answer.topics if version < 8 else answer.groups[0].topics
        here, none = topics[0].partitions
        assert (here.committed_offset, here.metadata) == (10, "note")
        assert here.committed_leader_epoch == (3 if version >= 5 else -1)
        assert (none.committed_offset, none.committed_leader_epoch, none.metadata) == (-1, -1, "")
        assert (here.error_code, none.error_code) == (0, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_does_not_exist_has_no_offsets(version: int) -> None:
    async with offsets_rig() as rig:
        # Whatever lies in the store.
        await rig.commit("other", {("a", 0): 1})
        row = await rig.store.get(keys.offset("other", "a", 0))
        assert row is not None
        await rig.store.put(keys.offset("g", "a", 0), row.value)
        wanted = [("a", 0), ("no", 5)] if version < 10 else [("a", 0)]
        assert await rig.fetch("g", wanted, version) == dict.fromkeys(wanted, -1)


async def test_several_groups_in_their_order() -> None:
    async with offsets_rig() as rig:
        for number in range(40):
            await rig.commit(f"g{number}", {("a", 0): number})
        asked = [OffsetFetchRequestGroup(group_id=f"g{n}", topics=None) for n in range(39, -1, -1)]
        asked.append(OffsetFetchRequestGroup(group_id="x" * 4000, topics=None))
        answer = await rig.call(OffsetFetchRequest(groups=asked), OffsetFetchResponse, 9)
        assert [group.group_id for group in answer.groups] == [one.group_id for one in asked]
        offsets = [group.topics[0].partitions[0].committed_offset for group in answer.groups[:-1]]
        assert offsets == list(range(39, -1, -1))
        assert answer.groups[-1].error_code == ErrorCode.INVALID_GROUP_ID
        empty = await rig.call(OffsetFetchRequest(groups=[]), OffsetFetchResponse, 9)
        assert empty.groups == []


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("m", 6, ErrorCode.NONE),
        ("m", 5, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 6, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_members_of_the_consumer_protocol(
    version: int, member_id: str | None, epoch: int, code: ErrorCode
) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 1})
        member = Member("m", 0, epoch=6)
        await rig.set_group("g", ConsumerGroup(epoch=6, assignment_epoch=6, members={"m": member}))
        group = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        answer = await rig.call(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, version)
        (found,) = answer.groups
        assert found.error_code == code
        assert len(found.topics) == (0 if code else 1)


async def test_members_of_the_classic_protocol_are_not_checked() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 1})
        await rig.set_group("g", classic_group(3, "m"))
        group = OffsetFetchRequestGroup(group_id="g", member_id="x", member_epoch=99, topics=None)
        answer = await rig.call(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 9)
        assert answer.groups[0].error_code == 0


async def test_unknown_topic_ids() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 1})
        known = rig.catalog.get("a")
        assert known is not None
        unknown = uuid.UUID(int=99)
        topics = [
            OffsetFetchRequestTopics(topic_id=unknown, partition_indexes=[0, 1]),
            OffsetFetchRequestTopics(topic_id=known.topic_id, partition_indexes=[0]),
        ]
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        answer = await rig.call(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 10)
        first, second = answer.groups[0].topics
        assert first.topic_id == unknown
        codes = [(p.committed_offset, p.error_code) for p in first.partitions]
        assert codes == [(-1, ErrorCode.UNKNOWN_TOPIC_ID)] * 2
        assert [p.committed_offset for p in second.partitions] == [1]


@pytest.mark.parametrize("require_stable", [False, True])
async def test_offsets_are_always_stable(require_stable: bool) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 1})
        request = rig.fetch_request("g", [("a", 0)], 9)
        request.require_stable = require_stable
        answer = await rig.call(request, OffsetFetchResponse, 9)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 1


async def test_what_another_broker_committed_is_seen_at_once() -> None:
    async with offsets_rig() as one, offsets_rig(type(one.store)(one.store.state)) as two:
        for offset in range(20):
            assert await one.commit("g", {("a", 0): offset}) == [0]
            assert await two.fetch("g", None) == {("a", 0): offset}
            one, two = two, one


async def test_offsets_go_with_their_topic() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", OFFSETS)
        topic = rig.catalog.get("a")
        assert topic is not None
        await rig.catalog.delete(topic)
        assert await rig.fetch("g", None) == {("b", 0): 7}
        assert await rig.fetch("g", [("a", 0), ("b", 0)]) == {("a", 0): -1, ("b", 0): 7}
        await rig.catalog.create(NewTopic("a", 3))
        assert await rig.fetch("g", None) == {("b", 0): 7}
        assert await rig.fetch("g", [("a", 0), ("a", 2)]) == {("a", 0): -1, ("a", 2): -1}
        await rig.commit("g", {("a", 0): 1})
        assert await rig.fetch("g", None) == {("a", 0): 1, ("b", 0): 7}


async def test_a_stale_catalog_hides_no_offset() -> None:
    async with offsets_rig() as one, offsets_rig(type(one.store)(one.store.state)) as two:
        topic = one.catalog.get("a")
        assert topic is not None
        # The same name, another topic: the first broker's cache may still know the old one.
        await two.catalog.delete(topic)
        await two.catalog.create(NewTopic("a", 3))
        assert await two.commit("g", {("a", 0): 5}) == [0]
        assert await one.fetch("g", [("a", 0)]) == {("a", 0): 5}


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9, 10])
async def test_without_the_store(version: int) -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 1})
        rig.store.faults.append(Fault("get", "/offsets/", error=StoreUnavailable("x")))
        request = rig.fetch_request("g", [("a", 0)], version)
        answer = await rig.call(request, OffsetFetchResponse, version)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if version == 1:
            (partition,) = answer.topics[0].partitions
            assert (partition.error_code, partition.committed_offset) == (code, -1)
        elif version < 8:
            assert (answer.error_code, answer.topics) == (code, [])
        else:
            (group,) = answer.groups
            assert (group.group_id, group.error_code, group.topics) == ("g", code, [])


async def test_many_offsets_are_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.groups.offsets.reader.PAGE_KEYS", 7)
    async with offsets_rig(topics={"a": 50, "a-b": 30}) as rig:
        offsets = {("a", n): n for n in range(50)} | {("a-b", n): n for n in range(30)}
        assert set(await rig.commit("g", offsets)) == {0}
        assert await rig.fetch("g", None) == offsets
        some = [("a", n) for n in range(3, 40, 5)] + [("a-b", 29)]
        assert await rig.fetch("g", some) == {key: key[1] for key in some}


async def test_a_damaged_value_fails_its_group_alone() -> None:
    async with offsets_rig() as rig:
        await rig.commit("g", {("a", 0): 1})
        await rig.commit("h", {("a", 0): 2})
        await rig.store.put(keys.offset("g", "a", 0), b"{}")
        asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
        answer = await rig.call(OffsetFetchRequest(groups=asked), OffsetFetchResponse, 9)
        codes = [group.error_code for group in answer.groups]
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]
