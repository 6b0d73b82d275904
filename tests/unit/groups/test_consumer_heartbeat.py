"""Heartbeats of the consumer protocol: joining, reconciliation, leaving, and every refusal."""

from __future__ import annotations

import pytest
from tests.unit.groups.helpers_consumer import GROUP_ID, MemoryTopics, World

from towpath.groups.classic.leave import Leaver, LeaveRequest
from towpath.groups.consumer.heartbeat import HeartbeatAnswer
from towpath.groups.consumer.member import MemberState
from towpath.groups.consumer.partitions import Partitions, count
from towpath.groups.consumer.refusal import Refused
from towpath.groups.consumer.request import Heartbeat
from towpath.groups.settings import GroupSettings
from towpath.kafka.codec.error_codes import ErrorCode


@pytest.fixture
def world() -> World:
    return World(MemoryTopics(orders=6, payments=3))


def refused(error: pytest.ExceptionInfo[Refused]) -> tuple[ErrorCode, str]:
    return error.value.code, error.value.message


def settle(world: World, *member_ids: str) -> None:
    """Heartbeats of members that do at once what they are told."""
    for _ in range(4):
        for member_id in member_ids:
            member = world.member(member_id)
            world.beat(member_id, member.epoch, member.assigned, instance=member.instance_id)


# Joining


def test_the_first_member_gets_everything_at_once(world: World) -> None:
    answer = world.join("a", "orders", "payments")
    everything = world.topics.partitions(orders=range(6), payments=range(3))
    assert answer == HeartbeatAnswer("a", 1, 5_000, everything)
    assert world.consumers.epoch == world.consumers.assignment_epoch == 1
    assert world.member("a").state is MemberState.STABLE


def test_a_member_without_id_gets_one(world: World) -> None:
    answer = world.beat("", 0, {}, names=["orders"], rebalance_timeout_ms=1, version=0)
    assert answer.member_id == "new1"
    assert list(world.consumers.members) == ["new1"]


def test_a_second_member_waits_until_the_first_gives_up(world: World) -> None:
    world.join("a", "orders")
    answer = world.join("b", "orders")
    assert answer == HeartbeatAnswer("b", 2, 5_000, {})
    assert world.member("b").state is MemberState.UNRELEASED_PARTITIONS

    told = world.beat("a", 1)
    assert told.member_epoch == 1
    assert told.assigned is not None
    assert count(told.assigned) == 3
    assert world.member("a").state is MemberState.UNREVOKED_PARTITIONS

    # It has not given up yet, and is not told again what it knows.
    assert world.beat("a", 1, world.topics.partitions(orders=range(6))).assigned is None
    assert world.beat("b", 2).assigned is None

    assert world.beat("a", 1, told.assigned) == HeartbeatAnswer("a", 2, 5_000, None)
    got = world.beat("b", 2).assigned
    assert got is not None
    assert {*got[world.topics.id("orders")], *told.assigned[world.topics.id("orders")]} == {
        *range(6)
    }
    assert world.consumers.state_name == "Stable"


def test_a_heartbeat_with_nothing_new_changes_nothing(world: World) -> None:
    world.join("a", "orders")
    before = world.group
    assert world.beat("a", 1) == HeartbeatAnswer("a", 1, 5_000, None)
    assert world.group is before


def test_a_full_request_is_told_its_assignment_again(world: World) -> None:
    assigned = world.join("a", "orders").assigned
    before = world.group
    again = world.beat("a", 1, assigned, names=["orders"], rebalance_timeout_ms=60_000)
    assert again.assigned == assigned
    assert world.group is before


def test_the_heartbeat_interval_is_the_groups(world: World) -> None:
    world.settings = GroupSettings().with_overrides({"consumer.heartbeat.interval.ms": "7000"})
    assert world.join("a", "orders").heartbeat_interval_ms == 7_000


def test_a_lost_first_answer_may_be_asked_for_again(world: World) -> None:
    first = world.join("a", "orders")
    assert world.join("a", "orders") == first
    assert len(world.consumers.members) == 1


def test_a_member_subscribed_to_nothing_raises_no_epoch(world: World) -> None:
    world.join("a", "orders")
    answer = world.beat("b", 0, {}, names=[], rebalance_timeout_ms=60_000)
    assert answer == HeartbeatAnswer("b", 1, 5_000, {})
    assert world.consumers.epoch == 1


# Epochs


def test_changed_subscriptions_raise_the_epoch(world: World) -> None:
    world.join("a", "orders")
    answer = world.beat("a", 1, names=["orders", "payments"])
    assert answer.member_epoch == 2
    assert answer.assigned == world.topics.partitions(orders=range(6), payments=range(3))


def test_topics_that_come_grow_and_go_raise_the_epoch(world: World) -> None:
    world.join("a", "orders", "later")
    assert world.consumers.epoch == 1
    world.topics.make("unrelated", 3)
    assert world.beat("a", 1) == HeartbeatAnswer("a", 1, 5_000, None)
    world.topics.make("later", 2)
    answer = world.beat("a", 1)
    assert (answer.member_epoch, answer.assigned) == (
        2,
        world.topics.partitions(orders=range(6), later=range(2)),
    )
    world.topics.make("orders", 7)
    answer = world.beat("a", 2)
    assert (answer.member_epoch, answer.assigned) == (
        3,
        world.topics.partitions(orders=range(7), later=range(2)),
    )
    world.topics.remove("later")
    answer = world.beat("a", 3)
    # What is gone must be given up like anything else.
    assert answer.member_epoch == 3
    assert answer.assigned == world.topics.partitions(orders=range(7))
    assert world.beat("a", 3, answer.assigned).member_epoch == 4


def test_another_assignor_counts_at_the_next_assignment(world: World) -> None:
    world.join("a", "orders")
    world.join("b", "orders")
    settle(world, "a", "b")
    epoch = world.consumers.epoch
    world.beat("a", world.member("a").epoch, assignor="range")
    assert world.consumers.epoch == epoch
    world.join("c", "orders")
    orders = world.topics.id("orders")
    assert [world.consumers.targets[key][orders] for key in "abc"] == [{0, 1}, {2, 3}, {4, 5}]


def test_the_epoch_before_is_accepted_while_the_answer_may_be_lost(world: World) -> None:
    world.join("a", "orders")
    world.beat("a", 1, names=["orders", "payments"])
    # The answer with epoch 2 was lost; the member says what it has and asks again.
    has = world.topics.partitions(orders=range(6))
    answer = world.beat("a", 1, has, names=["orders", "payments"], rebalance_timeout_ms=60_000)
    assert answer.member_epoch == 2
    assert answer.assigned == world.topics.partitions(orders=range(6), payments=range(3))


FENCED = (
    "The consumer group member has a {} member epoch ({}) than the one known by the group "
    "coordinator ({}). The member must abandon all its partitions and rejoin."
)


def test_other_epochs_are_fenced(world: World) -> None:
    world.join("a", "orders")
    world.beat("a", 1, names=["orders", "payments"])
    world.beat("a", 2, names=["orders"])
    before = world.group
    elsewhere = world.topics.partitions(payments=[0])
    cases: list[tuple[int, Partitions | None, str]] = [
        (3, None, "greater"),
        (1, None, "smaller"),
        (1, elsewhere, "smaller"),
    ]
    for epoch, reported, which in cases:
        with pytest.raises(Refused) as error:
            world.beat("a", epoch, reported)
        known = world.member("a").epoch
        assert refused(error) == (
            ErrorCode.FENCED_MEMBER_EPOCH,
            FENCED.format(which, epoch, known),
        )
    assert world.group is before


def test_joining_again_long_after_is_fenced(world: World) -> None:
    world.join("a", "orders")
    world.beat("a", 1, names=["orders", "payments"])
    with pytest.raises(Refused) as error:
        world.join("a", "orders")
    assert error.value.code is ErrorCode.FENCED_MEMBER_EPOCH


# Leaving


def test_leaving_frees_everything(world: World) -> None:
    world.join("a", "orders")
    world.join("b", "orders")
    settle(world, "a", "b")
    assert world.leave("a") == HeartbeatAnswer("a", -1)
    assert list(world.consumers.members) == ["b"]
    assert world.consumers.epoch == 3
    answer = world.beat("b", world.member("b").epoch)
    assert (answer.member_epoch, answer.assigned) == (3, world.topics.partitions(orders=range(6)))


def test_the_last_one_leaves_an_empty_group(world: World) -> None:
    world.join("a", "orders")
    world.leave("a")
    assert world.consumers.is_empty
    assert (world.consumers.epoch, world.consumers.metadata_hash) == (2, 0)
    assert world.join("b", "orders").member_epoch == 3


def test_leaving_what_one_is_not_in(world: World) -> None:
    with pytest.raises(Refused) as error:
        world.leave("a")
    assert refused(error) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP_ID} not found.")
    world.join("a", "orders")
    with pytest.raises(Refused) as error:
        world.leave("b")
    assert refused(error) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member b is not a member of group {GROUP_ID}.",
    )


def test_an_administrator_removes_members(world: World) -> None:
    world.join("a", "orders")
    world.join("b", "orders", instance="two")
    world.join("c", "orders", instance="three")
    epoch = world.consumers.epoch
    leavers = [
        ("a", None),
        ("a", None),
        ("", "two"),
        ("b", "three"),
        ("", "nobody"),
        ("stranger", None),
    ]
    step = LeaveRequest(tuple(Leaver(*leaver) for leaver in leavers))
    outcome = step(world.group, world.env())
    assert outcome.answer == (
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
    world.group = outcome.group
    assert list(world.consumers.members) == ["c"]
    assert world.consumers.epoch == epoch + 1
    stays = world.group
    assert LeaveRequest((Leaver("x", None),))(world.group, world.env()).group is stays


# Static members


def test_a_static_member_comes_back_to_its_partitions(world: World) -> None:
    world.join("a", "orders", instance="i")
    world.join("b", "orders")
    settle(world, "a", "b")
    had, epoch = world.member("a").assigned, world.consumers.epoch
    assert world.leave("a", "i", epoch=-2) == HeartbeatAnswer("a", -2)
    left = world.group
    assert world.leave("a", "i", epoch=-2) == HeartbeatAnswer("a", -2)
    assert world.group is left
    assert world.member("a").assigned == had

    answer = world.join("c", "orders", instance="i")
    assert answer == HeartbeatAnswer("c", epoch, 5_000, had)
    assert set(world.consumers.members) == {"b", "c"}
    assert world.consumers.epoch == epoch
    assert world.consumers.targets["c"] == had


def test_a_static_member_that_comes_back_with_other_topics(world: World) -> None:
    world.join("a", "orders", instance="i")
    world.leave("a", "i", epoch=-2)
    answer = world.join("b", "payments", instance="i")
    # What it had before is given up: it joined with nothing.
    assert answer == HeartbeatAnswer("b", 2, 5_000, world.topics.partitions(payments=range(3)))


def test_an_instance_id_in_use_is_not_given_away(world: World) -> None:
    world.join("a", "orders", instance="i")
    with pytest.raises(Refused) as error:
        world.join("b", "orders", instance="i")
    assert refused(error) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member b with instance id i cannot join the group because the instance id is "
        "owned by a member.",
    )


def test_who_was_replaced_is_fenced(world: World) -> None:
    world.join("a", "orders", instance="i")
    world.leave("a", "i", epoch=-2)
    world.join("b", "orders", instance="i")
    for epoch in (1, -1, -2):
        with pytest.raises(Refused) as error:
            world.beat("a", epoch, instance="i")
        assert refused(error) == (
            ErrorCode.FENCED_INSTANCE_ID,
            "Static member a with instance id i was fenced by member b.",
        )


def test_unknown_static_members(world: World) -> None:
    world.join("a", "orders")
    for epoch in (1, -1, -2):
        with pytest.raises(Refused) as error:
            world.beat("a", epoch, instance="i")
        assert refused(error) == (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id i is unknown.")


def test_a_static_member_leaves_for_good(world: World) -> None:
    world.join("a", "orders", instance="i")
    assert world.leave("a", "i") == HeartbeatAnswer("a", -1)
    assert world.consumers.is_empty


# Refusals


def test_groups_that_do_not_exist(world: World) -> None:
    with pytest.raises(Refused) as error:
        world.beat("a", 1)
    assert refused(error) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {GROUP_ID} not found.")
    assert world.group is None


def test_unknown_members(world: World) -> None:
    world.join("a", "orders")
    with pytest.raises(Refused) as error:
        world.beat("b", 1)
    assert refused(error) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member b is not a member of group {GROUP_ID}.",
    )


def test_full_groups(world: World) -> None:
    world.settings = GroupSettings(consumer_max_size=1)
    world.join("a", "orders")
    with pytest.raises(Refused) as error:
        world.join("b", "orders")
    assert refused(error) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 1 members.",
    )
    assert world.beat("a", 1).member_epoch == 1


INVALID = [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"member_id": " ", "member_epoch": -1, "api_version": 0}, "MemberId can't be empty."),
    ({"group_id": " "}, "GroupId can't be empty."),
    ({"instance_id": ""}, "InstanceId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"reported": None}, "TopicPartitions must be empty when (re-)joining."),
    (
        {"topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is invalid."),
]


@pytest.mark.parametrize(("fields", "message"), INVALID)
def test_invalid_requests(world: World, fields: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "group_id": GROUP_ID,
        "member_id": "a",
        "member_epoch": 0,
        "api_version": 1,
        "rebalance_timeout_ms": 1,
        "topic_names": ("orders",),
        "reported": {},
    }
    with pytest.raises(Refused) as error:
        world.ask(Heartbeat(**{**good, **fields}))  # type: ignore[arg-type]
    assert refused(error) == (ErrorCode.INVALID_REQUEST, message)
    assert world.group is None


def test_partitions_when_joining(world: World) -> None:
    with pytest.raises(Refused) as error:
        world.beat(
            "a", 0, world.topics.partitions(orders=[1]), names=["orders"], rebalance_timeout_ms=1
        )
    assert error.value.message == "TopicPartitions must be empty when (re-)joining."


def test_unsupported_assignors(world: World) -> None:
    with pytest.raises(Refused) as error:
        world.join("a", "orders", assignor="sticky")
    assert refused(error) == (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
    )
