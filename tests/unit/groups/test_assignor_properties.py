"""Whatever the group is like: assignments are complete, balanced and sticky."""

from __future__ import annotations

import uuid
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from towpath.groups.consumer.assignors import ASSIGNORS, Assignor, GroupSpec, MemberSpec
from towpath.groups.consumer.partitions import Partitions, common, count, each

TOPIC_IDS = [uuid.UUID(int=number * 0x9E3779B97F4A7C15 << 32) for number in range(1, 5)]
UNIFORM, RANGE = ASSIGNORS["uniform"], ASSIGNORS["range"]


def _group(
    counts: dict[uuid.UUID, int],
    subscriptions: dict[str, frozenset[uuid.UUID]],
    assigned: dict[str, Partitions] | None = None,
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    return GroupSpec(
        members={
            member_id: MemberSpec(
                topic_ids,
                (assigned or {}).get(member_id, {}),
                (instances or {}).get(member_id),
            )
            for member_id, topic_ids in subscriptions.items()
        },
        partition_counts=counts,
        is_homogeneous=len(set(subscriptions.values())) <= 1,
    )


COUNTS = st.dictionaries(st.sampled_from(TOPIC_IDS), st.integers(1, 12), min_size=1)
MEMBER_IDS = st.lists(st.uuids().map(str), min_size=1, max_size=9, unique=True)


@st.composite
def same_subscriptions(draw: st.DrawFn) -> GroupSpec:
    counts = draw(COUNTS)
    return _group(counts, dict.fromkeys(draw(MEMBER_IDS), frozenset(counts)))


@st.composite
def mixed_subscriptions(draw: st.DrawFn) -> GroupSpec:
    counts = draw(COUNTS)
    some = st.frozensets(st.sampled_from(sorted(counts)))
    return _group(counts, {member_id: draw(some) for member_id in draw(MEMBER_IDS)})


def check_complete(group: GroupSpec, made: dict[str, Partitions]) -> None:
    """Every partition of a topic with subscribers belongs to exactly one of them."""
    for member_id, partitions in made.items():
        assert set(partitions) <= group.members[member_id].topic_ids
        assert all(partitions.values())
    owned = Counter(pair for partitions in made.values() for pair in each(partitions))
    wanted = {topic_id for member in group.members.values() for topic_id in member.topic_ids}
    assert owned == Counter(
        (topic_id, number)
        for topic_id in wanted
        for number in range(group.partition_counts[topic_id])
    )


def again(
    group: GroupSpec, made: dict[str, Partitions], assign: Assignor, *gone: str, come: str = ""
) -> tuple[GroupSpec, dict[str, Partitions]]:
    """The group after members have gone and one has come, and its new assignment."""
    subscriptions = {
        member_id: member.topic_ids
        for member_id, member in group.members.items()
        if member_id not in gone
    }
    if come:
        subscriptions[come] = next(iter(group.members.values())).topic_ids
    changed = _group(dict(group.partition_counts), subscriptions, made)
    return changed, assign(changed)


def kept(before: dict[str, Partitions], after: dict[str, Partitions]) -> int:
    """How many partitions stay where they are."""
    return sum(count(common(before[key], after.get(key, {}))) for key in before)


@given(same_subscriptions())
def test_uniform_same(group: GroupSpec) -> None:
    made = UNIFORM(group)
    check_complete(group, made)
    sizes = [count(partitions) for partitions in made.values()]
    assert max(sizes) - min(sizes) <= 1


@given(mixed_subscriptions())
def test_uniform_mixed(group: GroupSpec) -> None:
    made = UNIFORM(group)
    check_complete(group, made)
    sizes = {key: count(made.get(key, {})) for key in group.members}
    for topic_id in group.partition_counts:
        subscribers = [key for key, value in group.members.items() if topic_id in value.topic_ids]
        for owner in subscribers:
            if made[owner].get(topic_id):
                # No partition of its could move to somebody with two fewer.
                assert all(sizes[owner] - sizes[other] <= 1 for other in subscribers)


@given(same_subscriptions() | mixed_subscriptions())
def test_uniform_stays(group: GroupSpec) -> None:
    made = UNIFORM(group)
    _, after = again(group, made, UNIFORM)
    assert after == made


@given(same_subscriptions(), st.data())
def test_uniform_same_is_sticky_when_members_go(group: GroupSpec, data: st.DataObject) -> None:
    made = UNIFORM(group)
    gone = data.draw(st.sets(st.sampled_from(sorted(group.members)), max_size=3))
    if len(gone) == len(group.members):
        return
    changed, after = again(group, made, UNIFORM, *gone)
    check_complete(changed, after)
    stayed = {key: value for key, value in made.items() if key not in gone}
    assert kept(stayed, after) == sum(map(count, stayed.values()))


@given(same_subscriptions())
def test_uniform_same_moves_no_more_than_a_newcomer_gets(group: GroupSpec) -> None:
    made = UNIFORM(group)
    changed, after = again(group, made, UNIFORM, come="newcomer")
    check_complete(changed, after)
    assert sum(map(count, made.values())) - kept(made, after) == count(after["newcomer"])


@given(mixed_subscriptions(), st.data())
def test_uniform_mixed_stays_complete(group: GroupSpec, data: st.DataObject) -> None:
    made = UNIFORM(group)
    gone = data.draw(st.sampled_from(sorted(group.members)))
    changed, after = again(group, made, UNIFORM, gone, come="newcomer")
    check_complete(changed, after)


@given(same_subscriptions() | mixed_subscriptions())
def test_range(group: GroupSpec) -> None:
    made = RANGE(group)
    check_complete(group, made)
    for topic_id in group.partition_counts:
        members = [key for key in sorted(made) if topic_id in group.members[key].topic_ids]
        numbers = [sorted(made[key].get(topic_id, ())) for key in members]
        in_turn = [number for own in numbers for number in own]
        assert in_turn == sorted(in_turn)
        sizes = list(map(len, numbers))
        assert sizes == sorted(sizes, reverse=True)
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(MEMBER_IDS, st.integers(1, 12))
def test_range_cuts_equal_topics_alike(member_ids: list[str], partitions: int) -> None:
    counts = dict.fromkeys(TOPIC_IDS, partitions)
    made = RANGE(_group(counts, dict.fromkeys(member_ids, frozenset(TOPIC_IDS))))
    assert all(len(set(own.values())) <= 1 for own in made.values())


def test_range_knows_static_members_again() -> None:
    counts = {TOPIC_IDS[0]: 5}
    topics = frozenset(counts)
    before = RANGE(_group(counts, {"a": topics, "b": topics}, instances={"a": "i0", "b": "i1"}))
    after = RANGE(_group(counts, {"z": topics, "b": topics}, instances={"z": "i0", "b": "i1"}))
    assert (after["z"], after["b"]) == (before["a"], before["b"])


def test_empty_groups_and_subscriptions() -> None:
    for assign in ASSIGNORS.values():
        assert not any(assign(_group({}, {})).values())
        assert not any(assign(_group({}, {"a": frozenset()})).values())
