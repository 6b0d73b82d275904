"""Static members: they come back under a new id and nobody has to rebalance for it."""

from __future__ import annotations

import pytest
from tests.unit.groups.helpers_classic import ClassicRig, protocols

from towpath.groups.classic.answers import JoinAnswer, SyncAnswer, Waiting
from towpath.groups.classic.state import Phase
from towpath.kafka.codec.error_codes import ErrorCode


def stable_pair() -> tuple[ClassicRig, str, str]:
    """A stable group of the static members `a`, which leads, and `b`."""
    rig = ClassicRig()
    first = rig.add(instance_id="a")
    second = rig.add(instance_id="b")
    rig.join(first, instance_id="a")
    assignments = {first: b"of-a", second: b"of-b"}
    rig.sync(first, assignments, instance_id="a")
    rig.sync(second, instance_id="b")
    assert rig.is_in(Phase.STABLE)
    return rig, first, second


def test_a_returning_follower_keeps_its_assignment() -> None:
    rig, first, second = stable_pair()
    answer = rig.join("", instance_id="b")
    assert isinstance(answer, JoinAnswer)
    assert answer.member_id != second
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, 2, first)
    assert (answer.members, answer.skip_assignment) == ((), False)
    assert rig.is_in(Phase.STABLE)
    synced = rig.sync(answer.member_id, instance_id="b")
    assert synced == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"of-b")
    assert list(rig.group.members) == [first, answer.member_id]


def test_a_returning_leader_is_told_to_skip_the_assignment() -> None:
    rig, _, second = stable_pair()
    answer = rig.join("", instance_id="a", version=9)
    assert isinstance(answer, JoinAnswer)
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert {m.member_id for m in answer.members} == {answer.member_id, second}
    assert {m.instance_id for m in answer.members} == {"a", "b"}


def test_a_returning_leader_of_an_old_version_is_not_shown_as_leader() -> None:
    rig, first, _ = stable_pair()
    answer = rig.join("", instance_id="a", version=8)
    assert isinstance(answer, JoinAnswer)
    assert (answer.leader, answer.members, answer.skip_assignment) == (first, (), False)
    assert rig.group.leader_id == answer.member_id


def test_the_old_id_is_fenced_everywhere() -> None:
    rig, _, second = stable_pair()
    rig.join("", instance_id="b")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert rig.beat(second, instance_id="b") is fenced
    assert rig.sync(second, instance_id="b") == SyncAnswer(fenced)
    assert rig.join(second, instance_id="b") == JoinAnswer(fenced, second)
    assert rig.leave((second, "b")) == (fenced,)
    assert rig.group.check_commit(second, "b", 2, 9) is fenced


def test_without_its_instance_id_the_old_id_is_unknown() -> None:
    rig, _, second = stable_pair()
    rig.join("", instance_id="b")
    assert rig.beat(second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_instance_id_with_a_member_id_is_an_unknown_member() -> None:
    rig, first, _ = stable_pair()
    assert rig.beat(first, instance_id="z") is ErrorCode.UNKNOWN_MEMBER_ID
    refused = JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, first)
    assert rig.join(first, instance_id="z") == refused


def test_another_choice_of_protocols_rebalances_if_it_changes_the_election() -> None:
    rig = ClassicRig()
    offers = protocols("range", "sticky")
    rig.stable(1, instance_id="a", offers=offers)
    kept = rig.join("", instance_id="a", offers=protocols("range"))
    assert isinstance(kept, JoinAnswer)
    assert rig.is_in(Phase.STABLE)
    rig = ClassicRig()
    rig.stable(1, instance_id="a", offers=offers)
    changed = rig.join("", instance_id="a", offers=protocols("sticky", "range"))
    assert isinstance(changed, JoinAnswer)
    assert (rig.group.phase, changed.generation) == (Phase.COMPLETING, 2)
    assert changed.protocol_name == "sticky"


def test_before_the_assignment_a_returning_member_starts_a_rebalance() -> None:
    rig, first, second = stable_pair()
    rig.join(first, instance_id="a")
    rig.join(second, instance_id="b")
    rig.sync(second, instance_id="b")
    assert rig.is_in(Phase.COMPLETING)
    answer = rig.join("", instance_id="b")
    assert isinstance(answer, Waiting)
    assert rig.is_in(Phase.PREPARING)
    # The request of its predecessor that waits for an assignment is told.
    assert rig.sync_answer_of(second, 3, "b") == SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)
    waiting = rig.sync_answer_of(first, 3, "a")
    assert waiting == SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)


def test_while_members_join_a_returning_member_takes_its_predecessor_s_place() -> None:
    rig, first, second = stable_pair()
    rig.join(first, instance_id="a")
    assert rig.is_in(Phase.PREPARING)
    old = rig.answer_of(first, "a")
    assert old is None
    again = rig.join("", instance_id="a")
    assert isinstance(again, Waiting)
    fenced = JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, first)
    assert rig.answer_of(first, "a") == fenced
    assert rig.group.leader_id == again.member_id
    done = rig.join(second, instance_id="b")
    assert isinstance(done, JoinAnswer)
    assert done.generation == 3


def test_a_static_member_that_does_not_join_keeps_its_place() -> None:
    rig, first, second = stable_pair()
    rig.join(first, instance_id="a")
    rig.fire("join/2/0")
    assert rig.is_in(Phase.COMPLETING)
    assert set(rig.group.members) == {first, second}
    answer = rig.answer_of(first, "a")
    assert answer is not None
    assert len(answer.members) == 2


def test_a_leader_that_does_not_join_is_replaced() -> None:
    rig, first, second = stable_pair()
    rig.join(second, instance_id="b", offers=protocols("range", metadata=b"new"))
    rig.fire("join/2/0")
    assert rig.group.leader_id == second
    assert set(rig.group.members) == {first, second}


def test_without_anybody_who_joins_the_group_waits_on() -> None:
    rig, first, second = stable_pair()
    rig.add()
    rig.fire("join/2/0")
    assert rig.is_in(Phase.COMPLETING)
    rig, first, second = stable_pair()
    dynamic = rig.add()
    rig.fire(f"new/{dynamic}")
    assert rig.is_in(Phase.PREPARING)
    rig.fire("join/2/0")
    assert rig.is_in(Phase.PREPARING)
    assert set(rig.group.members) == {first, second}
    assert "join/2/1" in rig.timers()
    rig.fire(f"session/{first}")
    rig.fire(f"session/{second}")
    assert rig.is_in(Phase.EMPTY)


@pytest.mark.parametrize("instance_id", ["a", "b"])
def test_an_administrator_removes_by_instance_id(instance_id: str) -> None:
    rig, _, _ = stable_pair()
    assert rig.leave(("", instance_id)) == (ErrorCode.NONE,)
    assert instance_id not in rig.group.static_ids
    assert rig.is_in(Phase.PREPARING)
