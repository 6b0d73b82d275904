"""LeaveGroup: one or many members, by their ids or as an administrator names them."""

from __future__ import annotations

from tests.unit.groups.helpers_classic import ClassicRig
from tests.unit.groups.helpers_other_kind import OtherKind

from towpath.groups.classic.answers import JoinAnswer
from towpath.groups.classic.state import Phase
from towpath.groups.settings import GroupSettings
from towpath.kafka.codec.error_codes import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_an_empty_group() -> None:
    rig = ClassicRig()
    [member] = rig.stable()
    rig.wall_ms += 5
    assert rig.leave((member, None)) == (ErrorCode.NONE,)
    group = rig.group
    assert (group.phase, group.generation, group.since_ms) == (Phase.EMPTY, 2, rig.wall_ms)
    assert (group.leader_id, group.protocol_name) == (None, None)
    assert group.protocol_type == "consumer"


def test_the_others_have_to_join_again() -> None:
    rig = ClassicRig()
    first, second, third = rig.stable(3)
    assert rig.leave((first, None)) == (ErrorCode.NONE,)
    assert rig.is_in(Phase.PREPARING)
    assert rig.group.leader_id == second
    rig.join(third)
    answer = rig.join(second)
    assert isinstance(answer, JoinAnswer)
    assert {m.member_id for m in answer.members} == {second, third}


def test_each_leaver_is_answered_by_itself() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    pending = rig.join("").member_id
    static = rig.add(instance_id="i")
    answers = rig.leave(
        (first, None),
        ("ghost", None),
        (second, "i"),
        ("", "i"),
        ("", "z"),
        ("", None),
        (pending, None),
    )
    assert answers == (
        ErrorCode.NONE, UNKNOWN, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE, UNKNOWN, UNKNOWN,
        ErrorCode.NONE,
    )  # fmt: skip
    assert static not in rig.group.members
    assert list(rig.group.members) == [second]
    assert not rig.group.pending


def test_nobody_leaves_by_a_wrong_request() -> None:
    rig = ClassicRig()
    rig.stable()
    state = rig.state
    assert rig.leave(("ghost", None), ("", None)) == (UNKNOWN, UNKNOWN)
    assert rig.state is state


def test_a_group_that_does_not_exist_or_is_of_the_other_kind_knows_nobody() -> None:
    rig = ClassicRig()
    assert rig.leave(("m", None), ("n", None)) == (UNKNOWN, UNKNOWN)
    rig.state = other = OtherKind(is_empty=False)
    assert rig.leave(("other", None)) == (UNKNOWN,)
    assert rig.state is other


def test_the_last_one_who_was_waited_for_leaves() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    assert rig.answer_of(first) is None
    rig.leave((second, None))
    answer = rig.answer_of(first)
    assert answer is not None
    assert answer.generation == 3


def test_a_pending_id_that_leaves_is_not_waited_for() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    pending = rig.join("").member_id
    rig.join(first)
    rig.join(second)
    assert rig.is_in(Phase.PREPARING)
    assert rig.leave((pending, None)) == (ErrorCode.NONE,)
    assert rig.is_in(Phase.COMPLETING)


def test_the_last_member_leaves_an_empty_group_though_an_id_is_pending() -> None:
    rig = ClassicRig()
    [member] = rig.stable()
    pending = rig.join("").member_id
    rig.leave((member, None))
    assert rig.is_in(Phase.EMPTY)
    assert list(rig.group.pending) == [pending]


def test_a_pending_id_leaves_a_stable_group_to_a_rebalance_as_in_kafka() -> None:
    rig = ClassicRig()
    rig.stable()
    pending = rig.join("").member_id
    rig.leave((pending, None))
    assert rig.is_in(Phase.PREPARING)


def test_while_the_first_rebalance_is_delayed_leaving_does_not_end_it() -> None:
    rig = ClassicRig(GroupSettings(initial_rebalance_delay_ms=3_000))
    member = rig.add()
    rig.leave((member, None))
    assert rig.is_in(Phase.PREPARING)
    assert rig.answer_of(member) == JoinAnswer(UNKNOWN)
    rig.fire("initial/0/0")
    assert rig.is_in(Phase.EMPTY)


def test_one_who_waits_for_the_others_may_leave() -> None:
    rig = ClassicRig()
    rig.stable()
    second = rig.add()
    rig.leave((second, None))
    assert rig.answer_of(second) == JoinAnswer(UNKNOWN)
