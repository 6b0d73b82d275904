"""A member's way to its target, case by case, as Apache Kafka's members go it.

The cases are those of Kafka's own tests: what the member has, its target, what it reports, and what
others still own, before; epoch, state and partitions after.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.groups.consumer.member import Member, MemberState
from towpath.groups.consumer.partitions import Partitions, common, meet, partitions_of, together
from towpath.groups.consumer.reconcile import reconcile

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def _of(a: str = "", b: str = "") -> Partitions:
    return partitions_of([(A, map(int, a.split())), (B, map(int, b.split()))])


def _member(
    state: MemberState,
    epoch: int,
    assigned: Partitions,
    revoking: Partitions | None = None,
    previous_epoch: int | None = None,
) -> Member:
    return Member(
        "m",
        0,
        state=state,
        epoch=epoch,
        previous_epoch=epoch if previous_epoch is None else previous_epoch,
        assigned=assigned,
        revoking=revoking or {},
    )


def _go(
    member: Member,
    target: Partitions,
    target_epoch: int,
    reported: Partitions | None = None,
    owned: Partitions | None = None,
) -> Member:
    everything: Mapping[uuid.UUID, frozenset[int]] = owned or {}
    return reconcile(
        member,
        target,
        target_epoch,
        lambda topic_id, number: number in everything.get(topic_id, ()),
        reported,
    )


HAS = _of("1 2 3", "4 5 6")

CASES = {
    "stable stays": (
        _member(STABLE, 10, HAS), HAS, 10, None, None,
        _member(STABLE, 10, HAS),
    ),
    "stable gets a new epoch": (
        _member(STABLE, 10, HAS), HAS, 11, None, None,
        _member(STABLE, 11, HAS, previous_epoch=10),
    ),
    "stable must give up": (
        _member(STABLE, 10, HAS), _of("2 3 4", "5 6 7"), 11, None, None,
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
    ),
    "stable has given up already": (
        _member(STABLE, 10, HAS), _of("2 3", "5 6"), 11, _of("2 3", "5 6"), None,
        _member(STABLE, 11, _of("2 3", "5 6"), previous_epoch=10),
    ),
    "stable gets free ones": (
        _member(STABLE, 10, HAS), _of("1 2 3 4", "4 5 6 7"), 11, None, None,
        _member(STABLE, 11, _of("1 2 3 4", "4 5 6 7"), previous_epoch=10),
    ),
    "stable must wait for some": (
        _member(STABLE, 10, HAS), _of("1 2 3 4", "4 5 6 7"), 11, None, _of("4"),
        _member(UNRELEASED, 11, _of("1 2 3", "4 5 6 7"), previous_epoch=10),
    ),
    "stable must wait for all": (
        _member(STABLE, 10, HAS), _of("1 2 3 4", "4 5 6 7"), 11, None, _of("4", "7"),
        _member(UNRELEASED, 11, HAS, previous_epoch=10),
    ),
    "unrevoked says nothing": (
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
        _of("2 3 4", "5 6 7"), 11, None, None,
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
    ),
    "unrevoked still has one": (
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
        _of("2 3 4", "5 6 7"), 11, _of("1 2 3", "5 6"), None,
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
    ),
    "unrevoked gives up and is done": (
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
        _of("2 3", "5 6"), 11, _of("2 3", "5 6"), None,
        _member(STABLE, 11, _of("2 3", "5 6"), previous_epoch=10),
    ),
    "unrevoked gives up and gets": (
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
        _of("2 3 4", "5 6 7"), 11, _of("2 3", "5 6"), None,
        _member(STABLE, 11, _of("2 3 4", "5 6 7"), previous_epoch=10),
    ),
    "unrevoked gives up and must give up more": (
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
        _of("3", "6"), 12, _of("2 3", "5 6"), None,
        _member(UNREVOKED, 11, _of("3", "6"), _of("2", "5"), previous_epoch=10),
    ),
    "unrevoked gives up and waits": (
        _member(UNREVOKED, 10, _of("2 3", "5 6"), _of("1", "4")),
        _of("2 3 4", "5 6 7"), 11, _of("2 3", "5 6"), _of("4", "7"),
        _member(UNRELEASED, 11, _of("2 3", "5 6"), previous_epoch=10),
    ),
    "unreleased gets some": (
        _member(UNRELEASED, 11, _of("2 3", "5 6")),
        _of("2 3 4", "5 6 7"), 11, None, _of("", "7"),
        _member(UNRELEASED, 11, _of("2 3 4", "5 6")),
    ),
    "unreleased gets all": (
        _member(UNRELEASED, 11, _of("2 3", "5 6")),
        _of("2 3 4", "5 6 7"), 11, None, None,
        _member(STABLE, 11, _of("2 3 4", "5 6 7")),
    ),
    "unreleased is not waiting any more": (
        _member(UNRELEASED, 11, _of("2 3", "5 6")),
        _of("2 3", "5 6"), 12, None, None,
        _member(STABLE, 12, _of("2 3", "5 6"), previous_epoch=11),
    ),
    "unreleased must give up": (
        _member(UNRELEASED, 11, _of("2 3", "5 6")),
        _of("2", "5"), 12, None, None,
        _member(UNREVOKED, 11, _of("2", "5"), _of("3", "6")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    member, target, target_epoch, reported, owned, after = CASES[name]
    assert _go(member, target, target_epoch, reported, owned) == after


def test_nothing_to_do_is_the_same_object() -> None:
    stable = _member(STABLE, 10, HAS)
    assert _go(stable, HAS, 10) is stable
    waits = _member(UNRELEASED, 11, _of("2"))
    assert _go(waits, _of("2 3"), 11, None, _of("3")) is waits


SETS = st.builds(
    lambda pairs: partitions_of((topic_id, (number,)) for topic_id, number in pairs),
    st.sets(st.tuples(st.sampled_from([A, B]), st.integers(0, 5))),
)


@given(SETS, SETS, st.none() | SETS, SETS)
def test_never_takes_what_others_own(
    assigned: Partitions, target: Partitions, reported: Partitions | None, others: Partitions
) -> None:
    if meet(assigned, others):
        return
    after = _go(_member(STABLE, 3, assigned), target, 4, reported, together(others, assigned))
    assert not meet(after.assigned, others)
    assert common(after.assigned, target) == after.assigned
    assert not meet(after.assigned, after.revoking)
    if after.state is STABLE:
        assert after.assigned == target
        assert after.epoch == 4
