"""What time does to a classic group: sessions, joins, assignments that nobody asks for."""

from __future__ import annotations

from tests.unit.groups.helpers_classic import ClassicRig, protocols
from tests.unit.groups.helpers_other_kind import OtherKind

from towpath.groups.classic.expiry import NEW_MEMBER_JOIN_TIMEOUT_MS
from towpath.groups.classic.state import Phase


def test_a_stable_group_has_only_sessions_to_watch() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2, session_timeout_ms=20_000)
    timers = rig.timers()
    assert set(timers) == {f"session/{first}", f"session/{second}"}
    assert {timer.after_ms for timer in timers.values()} == {20_000}
    assert timers[f"session/{first}"].member_id == first


def test_an_empty_group_has_nothing_to_watch() -> None:
    rig = ClassicRig()
    [member] = rig.stable()
    rig.leave((member, None))
    assert not rig.timers()


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.fire(f"session/{first}")
    assert rig.is_in(Phase.PREPARING)
    assert list(rig.group.members) == [second]
    assert rig.group.leader_id == second


def test_the_last_silent_member_leaves_an_empty_group() -> None:
    rig = ClassicRig()
    [member] = rig.stable()
    rig.fire(f"session/{member}")
    assert rig.is_in(Phase.EMPTY)


def test_a_silent_member_is_not_waited_for() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    rig.fire(f"session/{second}")
    assert rig.is_in(Phase.COMPLETING)
    assert list(rig.group.members) == [first]


def test_a_silent_member_before_the_assignment_starts_anew() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    rig.join(second)
    rig.fire(f"session/{second}")
    assert rig.is_in(Phase.PREPARING)
    assert rig.group.generation == 3


def test_who_does_not_join_in_time_is_left_behind() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2, rebalance_timeout_ms=30_000)
    rig.join(second, offers=protocols("range", metadata=b"x"), rebalance_timeout_ms=5_000)
    assert rig.timers()["join/2/0"].after_ms == 30_000
    rig.fire("join/2/0")
    assert rig.is_in(Phase.COMPLETING)
    assert list(rig.group.members) == [second]
    assert rig.group.leader_id == second
    assert first not in rig.group.members


def test_a_time_out_of_an_old_rebalance_does_nothing() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    old = rig.timers()["join/2/0"]
    rig.join(second)
    rig.join(first, offers=protocols("range", metadata=b"x"))
    assert rig.is_in(Phase.PREPARING)
    state = rig.state
    rig.apply(old.step)
    assert rig.state is state


def test_a_pending_id_is_forgotten_after_its_session_time_out() -> None:
    rig = ClassicRig()
    rig.stable()
    pending = rig.join("", session_timeout_ms=7_000).member_id
    timer = rig.timers()[f"pending/{pending}"]
    assert (timer.after_ms, timer.member_id) == (7_000, None)
    rig.apply(timer.step)
    assert rig.is_in(Phase.STABLE)
    assert not rig.group.pending


def test_a_forgotten_pending_id_is_not_waited_for() -> None:
    rig = ClassicRig()
    [first] = rig.stable()
    pending = rig.join("").member_id
    rig.join(first)
    assert rig.is_in(Phase.PREPARING)
    rig.fire(f"pending/{pending}")
    assert rig.is_in(Phase.COMPLETING)


def test_a_new_member_does_not_wait_for_ever() -> None:
    rig = ClassicRig()
    rig.stable(1, rebalance_timeout_ms=600_000)
    second = rig.add()
    timer = rig.timers()[f"new/{second}"]
    assert (timer.after_ms, timer.member_id) == (NEW_MEMBER_JOIN_TIMEOUT_MS, None)
    rig.apply(timer.step)
    assert second not in rig.group.members


def test_who_never_asks_for_its_assignment_is_removed() -> None:
    rig = ClassicRig()
    first, second, third = rig.stable(3, rebalance_timeout_ms=30_000)
    for member_id in (first, second, third):
        rig.join(member_id, rebalance_timeout_ms=30_000)
    assert rig.timers()["sync/4/0"].after_ms == 30_000
    rig.sync(second)
    rig.sync(first, {first: b"1"})
    assert rig.is_in(Phase.STABLE)
    rig.fire("sync/4/0")
    assert rig.is_in(Phase.PREPARING)
    assert list(rig.group.members) == [first, second]
    # The assignment of a stable group is kept until there is another one.
    assert rig.group.members[first].assignment == b"1"


def test_a_leader_that_never_assigns_is_removed() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    rig.join(second)
    rig.sync(second)
    rig.fire("sync/3/0")
    assert list(rig.group.members) == [second]
    assert rig.group.leader_id == second


def test_once_all_have_asked_nothing_is_waited_for() -> None:
    rig = ClassicRig()
    first, second = rig.stable(2)
    rig.join(first)
    rig.join(second)
    old = rig.timers()["sync/3/0"]
    rig.sync(first, {first: b"1", second: b"2"})
    rig.sync(second)
    assert "sync/3/0" not in rig.timers()
    state = rig.state
    rig.apply(old.step)
    assert rig.state is state


def test_steps_of_timers_leave_other_kinds_alone() -> None:
    rig = ClassicRig()
    rig.stable(2)
    steps = [timer.step for timer in rig.timers().values()]
    for other in (None, OtherKind(is_empty=False)):
        rig.state = other
        for step in steps:
            rig.apply(step)
            assert rig.state is other
