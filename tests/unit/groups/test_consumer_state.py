"""What a group of the consumer protocol stores and tells."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.groups.helpers_consumer import MemoryTopics, World

from towpath.groups.consumer.member import Member, MemberState
from towpath.groups.consumer.partitions import Partitions, partitions_of
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.consumer.stored import BUCKET_MEMBERS, numbers_of, runs
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields

ROOT_MAX_BYTES = 16_384

TEXT = st.text(max_size=8)
PARTITIONS = st.builds(
    lambda pairs: partitions_of((topic_id, numbers) for topic_id, numbers in pairs),
    st.lists(st.tuples(st.uuids(), st.sets(st.integers(0, 40))), max_size=3),
)


class Blobs:
    """Contents by name."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self.contents[name] = content
        return name

    def get(self, name: str) -> bytes:
        return self.contents[name]


def _packed(group: ConsumerGroup) -> tuple[bytes, Blobs]:
    blobs = Blobs()
    return json.dumps(group.pack(blobs.put)).encode(), blobs


def _again(group: ConsumerGroup) -> ConsumerGroup:
    root, blobs = _packed(group)
    return ConsumerGroup.unpack(Fields(json.loads(root)), blobs.get)


@st.composite
def members(draw: st.DrawFn) -> dict[str, Member]:
    ids = draw(st.lists(TEXT, max_size=5, unique=True))
    return {
        member_id: Member(
            member_id=member_id,
            place=place,
            instance_id=draw(st.none() | TEXT),
            rack_id=draw(st.none() | TEXT),
            client_id=draw(TEXT),
            client_host=draw(TEXT),
            rebalance_timeout_ms=draw(st.integers(-1, 2**31 - 1)),
            server_assignor=draw(st.none() | TEXT),
            topic_names=draw(st.frozensets(TEXT, max_size=3)),
            topic_regex=draw(TEXT),
            epoch=draw(st.integers(-2, 2**31 - 1)),
            previous_epoch=draw(st.integers(-2, 2**31 - 1)),
            state=draw(st.sampled_from(MemberState)),
            assigned=draw(PARTITIONS),
            revoking=draw(PARTITIONS),
        )
        for place, member_id in enumerate(ids)
    }


@given(
    members(),
    st.integers(0, 2**31),
    st.integers(0, 2**31),
    st.lists(PARTITIONS.filter(bool), min_size=5, max_size=5),
    st.dictionaries(TEXT, st.frozensets(TEXT, max_size=3), max_size=3),
)
def test_round_trip(
    found: dict[str, Member],
    epoch: int,
    assignment_epoch: int,
    targets: list[Partitions],
    regexes: dict[str, frozenset[str]],
) -> None:
    group = ConsumerGroup(
        epoch=epoch,
        assignment_epoch=assignment_epoch,
        members=found,
        targets=dict(zip(found, targets, strict=False)),
        metadata_hash=epoch,
        regexes=regexes,
        next_place=9,
    )
    again = _again(group)
    assert again == group
    assert again.member_ids == group.member_ids


@given(st.sets(st.integers(0, 10_000), min_size=1))
def test_runs(numbers: set[int]) -> None:
    assert numbers_of(runs(sorted(numbers))) == numbers


def test_runs_are_short() -> None:
    assert runs([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


def _large(size: int = 1_000) -> World:
    world = World(MemoryTopics(orders=size, payments=size))
    for number in range(size):
        world.join(str(uuid.UUID(int=number * 77_777_777)), "orders", "payments")
    return world


def test_a_thousand_members_have_a_small_root_and_small_changes() -> None:
    world = _large()
    root, blobs = _packed(world.consumers)
    assert len(root) <= ROOT_MAX_BYTES
    assert max(map(len, blobs.contents.values())) <= BUCKET_MEMBERS * 2 * 400
    member_id = next(iter(world.consumers.members))
    before = world.consumers
    world.beat(member_id, world.member(member_id).epoch, {})
    assert world.consumers is not before
    changed = _packed(world.consumers)[1].contents.keys() - blobs.contents.keys()
    # What one member has; the encoding of everybody else is as it was.
    assert len(changed) == 1
    assert _again(world.consumers) == world.consumers


def test_buckets_of_an_older_state_are_not_taken_for_new_ones() -> None:
    world = World(MemoryTopics(orders=4))
    world.join("a", "orders")
    old = world.consumers
    _packed(old)
    world.join("b", "orders")
    _packed(world.consumers)
    assert _again(old) == old
    assert _again(world.consumers) == world.consumers


def test_state_names() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders")
    assert world.consumers.state_name == "Stable"
    world.join("b", "orders")
    assert world.consumers.state_name == "Reconciling"
    world.leave("b")
    assert world.consumers.state_name == "Assigning"
    world.leave("a")
    assert world.consumers.state_name == "Empty"
    assert world.consumers.is_empty
    assert world.consumers.protocol_type == "consumer"


def test_commits() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders")
    check = world.consumers.check_commit
    assert check("a", None, 1, 9) is ErrorCode.NONE
    assert check("a", None, 0, 9) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("a", None, 2, 10) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("a", None, 1, 8) is ErrorCode.UNSUPPORTED_VERSION
    assert check("b", None, 1, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("", None, -1, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    world.leave("a")
    assert world.consumers.check_commit("", None, -1, 9) is ErrorCode.NONE
    assert world.consumers.check_commit("", None, 0, 9) is ErrorCode.UNKNOWN_MEMBER_ID


def test_fetches() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders")
    check = world.consumers.check_fetch
    assert check(None, -1) is ErrorCode.NONE
    assert check("a", 1) is ErrorCode.NONE
    assert check("a", -1) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check(None, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_deletion_and_subscription() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders", "missing")
    assert world.consumers.check_delete() is ErrorCode.NON_EMPTY_GROUP
    assert world.consumers.subscribes_to("orders")
    assert world.consumers.subscribes_to("missing")
    assert not world.consumers.subscribes_to("payments")
    world.leave("a")
    assert world.consumers.check_delete() is ErrorCode.NONE
    assert not world.consumers.subscribes_to("orders")


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        ([None, None], "uniform"),
        (["range", None, None], "range"),
        (["uniform", "range", "range"], "range"),
        (["uniform", "uniform", "range"], "uniform"),
        (["sticky"], "uniform"),
    ],
)
def test_most_votes_choose_the_assignor(votes: list[str | None], chosen: str) -> None:
    found = {
        str(number): replace(Member(str(number), number), server_assignor=vote)
        for number, vote in enumerate(votes)
    }
    assert ConsumerGroup(members=found).assignor(("uniform", "range")) == chosen
