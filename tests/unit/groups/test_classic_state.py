"""A classic group's state: votes, offsets, subscriptions, what the store holds."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.groups.helpers_classic import WALL_MS, ClassicRig, protocols

from towpath.groups.classic.member import Member, Protocol
from towpath.groups.classic.state import ClassicGroup, InitialDelay, Phase
from towpath.groups.classic.subscription import subscribed_topics
from towpath.groups.classic.votes import candidates, elect, java_order
from towpath.groups.deletion import delete_group
from towpath.groups.settings import GroupSettings
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields


def member(*names: str) -> Member:
    return Member("m", None, "c", "/h", 10_000, 60_000, protocols(*names))


# Votes


def test_only_what_all_offer_can_be_elected() -> None:
    members = [member("a", "b", "c"), member("c", "b"), member("b", "c", "d")]
    assert candidates(members) == ["b", "c"]
    assert elect(members) == "b"
    assert candidates([]) == []


def test_the_majority_s_preference_wins() -> None:
    assert elect([member("a", "b"), member("b", "a"), member("b", "a")]) == "b"


@pytest.mark.parametrize(
    ("names", "order"),
    [
        # As java.util.HashMap lists them.
        (["range", "roundrobin"], ["range", "roundrobin"]),
        (["roundrobin", "range"], ["range", "roundrobin"]),
        (["cooperative-sticky", "range"], ["range", "cooperative-sticky"]),
        (
            ["cooperative-sticky", "range", "roundrobin", "sticky"],
            ["sticky", "range", "roundrobin", "cooperative-sticky"],
        ),
        (["é", "x", "😀"], ["x", "😀", "é"]),
    ],
)
def test_names_are_in_the_order_of_java_s_hash_map(names: list[str], order: list[str]) -> None:
    assert java_order(names) == order


# Offsets


def test_commits_of_a_group_without_members() -> None:
    group = ClassicGroup()
    assert group.check_commit("", None, -1, 9) is ErrorCode.NONE
    assert group.check_commit("m", None, -1, 9) is ErrorCode.NONE
    assert group.check_commit("m", None, 0, 9) is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_of_members() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    assert rig.group.check_commit(first, None, 2, 9) is ErrorCode.NONE
    assert rig.group.check_commit(first, None, 1, 9) is ErrorCode.ILLEGAL_GENERATION
    assert rig.group.check_commit(first, None, -1, 9) is ErrorCode.ILLEGAL_GENERATION
    assert rig.group.check_commit("ghost", None, 2, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.group.check_commit("", None, -1, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.group.check_commit(first, "i", 2, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    rig.join(first)
    # While a rebalance is prepared members save what they have done.
    assert rig.group.check_commit(second, None, 2, 9) is ErrorCode.NONE
    rig.join(second)
    assert rig.group.check_commit(second, None, 3, 9) is ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.group.check_commit(second, None, 2, 9) is ErrorCode.ILLEGAL_GENERATION
    assert rig.group.check_fetch(second, 3) is ErrorCode.NONE


def test_deletion() -> None:
    rig = ClassicRig()
    assert rig.apply(delete_group) is ErrorCode.GROUP_ID_NOT_FOUND
    [only] = rig.stable()
    assert rig.apply(delete_group) is ErrorCode.NON_EMPTY_GROUP
    rig.leave((only, None))
    assert rig.apply(delete_group) is ErrorCode.NONE
    assert rig.state is None


def test_retention_counts_from_when_the_group_became_empty() -> None:
    rig = ClassicRig()
    rig.state = ClassicGroup(since_ms=WALL_MS)
    assert rig.group.retention_from_ms(5) == 5
    [only] = rig.stable(offers=protocols("range", metadata=subscription("t")))
    assert rig.group.retention_from_ms(5) == 5
    rig.join(only, offers=protocols("range", metadata=subscription("t")))
    assert rig.group.retention_from_ms(5) is None
    rig.wall_ms += 100
    rig.leave((only, None))
    assert rig.group.retention_from_ms(5) == rig.wall_ms


# Subscriptions


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(t.encode())) + t.encode() for t in topics)
    return struct.pack(">hi", 3, len(topics)) + names + b"rest"


def test_a_group_knows_what_its_members_subscribe_to() -> None:
    rig = ClassicRig()
    rig.stable(2, offers=protocols("range", metadata=subscription("a", "ü")))
    assert rig.group.topics == frozenset({"a", "ü"})
    assert rig.group.subscribes_to("ü")
    assert not rig.group.subscribes_to("b")


def test_of_members_that_cannot_be_read_every_topic_is_taken_to_be_used() -> None:
    rig = ClassicRig()
    rig.stable()
    assert rig.group.topics is None
    assert rig.group.subscribes_to("any")
    rig = ClassicRig()
    rig.stable(protocol_type="connect")
    assert rig.group.topics is None
    assert not rig.group.subscribes_to("any")


def test_an_empty_group_uses_no_topic() -> None:
    rig = ClassicRig()
    [only] = rig.stable(offers=protocols("range", metadata=subscription("a")))
    rig.leave((only, None))
    assert rig.group.topics == frozenset()


@given(st.binary(max_size=60))
def test_any_metadata_can_be_looked_at(metadata: bytes) -> None:
    subscribed_topics(metadata)


def test_damaged_subscriptions_are_none() -> None:
    whole = subscription("topic")[:-4]
    for size in range(len(whole)):
        assert subscribed_topics(whole[:size]) is None
    assert subscribed_topics(struct.pack(">hi", 0, -1)) is None
    assert subscribed_topics(struct.pack(">hih", 0, 1, -1)) is None
    assert subscribed_topics(struct.pack(">hih", 0, 1, 1) + b"\xff") is None


# In the store

TEXT = st.text(max_size=5)
NUMBER = st.integers(0, 2**31 - 1)
MEMBERS = st.builds(
    Member,
    *(TEXT, st.none() | TEXT, TEXT, TEXT, NUMBER, NUMBER),
    st.lists(st.builds(Protocol, TEXT, st.binary(max_size=5)), max_size=3).map(tuple),
    *(st.binary(max_size=5), st.booleans(), st.booleans(), st.booleans()),
)
GROUPS = st.builds(
    ClassicGroup,
    *(st.sampled_from(Phase), NUMBER, st.none() | TEXT, st.none() | TEXT, st.none() | TEXT),
    st.lists(MEMBERS, max_size=3).map(lambda ms: {m.member_id: m for m in ms}),
    st.dictionaries(TEXT, NUMBER, max_size=3),
    st.none() | st.builds(InitialDelay, NUMBER, NUMBER, NUMBER, st.booleans()),
    *(NUMBER, NUMBER, NUMBER),
)


@given(GROUPS)
def test_groups_round_trip(group: ClassicGroup) -> None:
    contents: dict[str, bytes] = {}

    def put(content: bytes) -> str:
        contents[content.hex()] = content
        return content.hex()

    assert ClassicGroup.unpack(Fields(group.pack(put)), contents.__getitem__) == group


@given(GROUPS)
def test_every_state_tells_of_itself(group: ClassicGroup) -> None:
    settings = GroupSettings()
    names = [timer.name for timer in group.timers(settings)]
    assert len(names) == len(set(names))
    assert group.state_name in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
    for member_id in group.member_ids:
        assert group.has_member(member_id)
        assert group.session_timeout_ms(member_id, settings) >= 0
    assert replace(group) == group
