"""SyncGroup and Heartbeat: assignments, generations and fences."""

from __future__ import annotations

import pytest
from tests.unit.groups.helpers_classic import ClassicRig
from tests.unit.groups.helpers_other_kind import OtherKind

from towpath.groups.classic.answers import SyncAnswer, Waiting
from towpath.groups.classic.state import Phase
from towpath.kafka.codec.error_codes import ErrorCode


def completing() -> tuple[ClassicRig, str, str]:
    """A group of two whose leader is about to assign."""
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    rig.join(second)
    assert rig.is_in(Phase.COMPLETING)
    return rig, first, second


def test_followers_wait_for_the_leader() -> None:
    rig, first, second = completing()
    assert rig.sync(second) == Waiting(second)
    assert rig.sync_answer_of(second, 3) is None
    answer = rig.sync(first, {first: b"1", second: b"2"})
    assert answer == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"1")
    assert rig.is_in(Phase.STABLE)
    assert rig.sync_answer_of(second, 3) == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"2")


def test_who_asks_later_is_answered_at_once() -> None:
    rig, first, second = completing()
    rig.sync(first, {first: b"1", second: b"2"})
    assert rig.sync(second) == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"2")
    state = rig.state
    assert rig.sync(second) == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"2")
    assert rig.state is state


def test_a_member_that_the_leader_leaves_out_gets_nothing() -> None:
    rig, first, second = completing()
    rig.sync(first, {first: b"1", "stranger": b"3"})
    assert rig.sync(second) == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"")
    assert set(rig.group.members) == {first, second}


def test_a_follower_s_assignments_are_ignored() -> None:
    rig, _, second = completing()
    assert rig.sync(second, {second: b"all"}) == Waiting(second)
    assert rig.is_in(Phase.COMPLETING)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 4}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_wrong_requests_are_refused(change: dict[str, object], error: ErrorCode) -> None:
    rig, first, _ = completing()
    state = rig.state
    assert rig.sync(first, {first: b"1"}, **change) == SyncAnswer(error)  # type: ignore[arg-type]
    assert rig.state is state


def test_old_versions_name_no_protocol() -> None:
    rig, first, _ = completing()
    answer = rig.sync(first, {first: b"1"}, protocol_name=None, protocol_type=None)
    assert answer == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"1")


def test_strangers_are_unknown() -> None:
    rig = ClassicRig()
    unknown = SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
    assert rig.sync("m") == unknown
    rig.join("")
    assert rig.sync("m") == unknown
    rig.stable()
    assert rig.sync("m") == unknown
    rig.state = OtherKind(is_empty=False)
    assert rig.sync("m") == unknown


def test_while_members_join_nobody_gets_an_assignment() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    assert rig.sync(second) == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    assert rig.group.members[second].assignment == second.encode()


def test_a_rebalance_takes_back_what_was_not_assigned_yet() -> None:
    rig, first, second = completing()
    rig.sync(second)
    rig.add()
    assert rig.is_in(Phase.PREPARING)
    for member_id in (first, second):
        answer = rig.sync_answer_of(member_id, 3)
        assert answer == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
        assert rig.group.members[member_id].assignment == b""


def test_who_waits_is_told_of_a_later_generation_or_of_its_removal() -> None:
    rig, first, second = completing()
    third = rig.add()
    rig.join(first)
    rig.join(second)
    assert rig.group.generation == 4
    assert rig.sync_answer_of(second, 3) == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
    assert rig.sync_answer_of("gone", 3) == SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
    assert third in rig.group.members


# Heartbeats


def test_heartbeats_tell_where_the_group_stands() -> None:
    rig = ClassicRig()
    assert rig.beat("m") is ErrorCode.UNKNOWN_MEMBER_ID
    first, second = rig.stable(2)
    assert rig.beat(first) is ErrorCode.NONE
    assert rig.beat("m") is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.beat(first, 1) is ErrorCode.ILLEGAL_GENERATION
    assert rig.beat(first, 3) is ErrorCode.ILLEGAL_GENERATION
    rig.join(first)
    assert rig.beat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    rig.join(second)
    assert rig.is_in(Phase.COMPLETING)
    assert rig.beat(first) is ErrorCode.NONE


def test_a_pending_id_and_an_empty_group_know_no_heartbeat() -> None:
    rig = ClassicRig()
    pending = rig.join("").member_id
    assert rig.beat(pending, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    rig.state = OtherKind(is_empty=False)
    assert rig.beat("other") is ErrorCode.UNKNOWN_MEMBER_ID
