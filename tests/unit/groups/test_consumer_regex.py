"""Subscriptions by regular expression."""

from __future__ import annotations

import pytest
from tests.unit.groups.helpers_consumer import MemoryTopics, World

from towpath.groups.consumer.heartbeat import HeartbeatAnswer
from towpath.groups.consumer.refusal import Refused
from towpath.kafka.codec.error_codes import ErrorCode


@pytest.fixture
def world() -> World:
    topics = MemoryTopics(other=1)
    topics.make("logs-a", 2)
    topics.make("logs-b", 1)
    return World(topics)


def test_matches_whole_names_with_the_second_heartbeat(world: World) -> None:
    world.topics.make("xlogs-a", 1)
    assert world.join("a", regex="logs-[ab]") == HeartbeatAnswer("a", 1, 5_000, {})
    assert world.beat("a", 1, {}) == HeartbeatAnswer(
        "a", 2, 5_000, world.topics.partitions(**{"logs-a": range(2), "logs-b": [0]})
    )
    assert world.consumers.subscribes_to("logs-a")
    before = world.group
    world.beat("a", 2)
    assert world.group is before


def test_topics_that_come_and_go(world: World) -> None:
    world.join("a", regex="logs-.*")
    world.beat("a", 1)
    world.topics.make("unrelated", 1)
    before = world.group
    assert world.beat("a", 2).member_epoch == 2
    assert world.group is before
    world.topics.make("logs-c", 1)
    answer = world.beat("a", 2)
    assert answer.member_epoch == 3
    assert answer.assigned is not None
    assert world.topics.id("logs-c") in answer.assigned
    world.topics.remove("logs-a")
    answer = world.beat("a", 3)
    assert answer.assigned == world.topics.partitions(**{"logs-b": [0], "logs-c": [0]})


def test_a_matched_topic_that_grows(world: World) -> None:
    world.join("a", regex="other")
    world.beat("a", 1)
    world.beat("a", 2, regex="logs-b")
    # What it had is given up once the new expression is known to mean something else.
    assert world.beat("a", 2) == HeartbeatAnswer("a", 2, 5_000, {})
    logs_b = world.topics.partitions(**{"logs-b": [0]})
    assert world.beat("a", 2, {}) == HeartbeatAnswer("a", 3, 5_000, logs_b)
    assert world.consumers.subscribes_to("logs-b")
    world.topics.make("logs-b", 2)
    answer = world.beat("a", 3)
    assert answer.member_epoch == 4
    assert answer.assigned == world.topics.partitions(**{"logs-b": range(2)})


def test_names_and_expression_together(world: World) -> None:
    first = world.join("a", "other", regex="logs-a").assigned
    assert first == world.topics.partitions(other=[0])
    second = world.beat("a", 1, first).assigned
    assert second == world.topics.partitions(**{"other": [0], "logs-a": range(2)})


def test_a_known_expression_needs_no_second_heartbeat(world: World) -> None:
    world.join("a", regex="other")
    world.beat("a", 1)
    assert world.join("b", regex="other").member_epoch == 3


def test_an_expression_is_kept_while_somebody_has_it(world: World) -> None:
    world.join("a", regex="logs-.*")
    world.join("b", regex="logs-.*")
    world.beat("b", world.member("b").epoch)
    world.leave("a")
    assert set(world.consumers.regexes) == {"logs-.*"}
    world.beat("b", world.member("b").epoch, regex="other")
    assert not world.consumers.regexes
    world.beat("b", world.member("b").epoch, {})
    assert set(world.consumers.regexes) == {"other"}
    world.beat("b", world.member("b").epoch, {}, regex="")
    assert not world.consumers.regexes
    assert not world.consumers.subscribed_names


def test_an_expression_that_matches_nothing(world: World) -> None:
    assert world.join("a", regex="nothing.*") == HeartbeatAnswer("a", 1, 5_000, {})
    assert world.beat("a", 1, {}) == HeartbeatAnswer("a", 1, 5_000, None)
    assert world.consumers.state_name == "Stable"
    assert not world.consumers.unresolved


def test_an_expression_that_matches_nothing_any_more(world: World) -> None:
    world.join("a", regex="other")
    world.beat("a", 1)
    world.beat("a", 2, regex="nothing.*")
    assert world.beat("a", 2) == HeartbeatAnswer("a", 2, 5_000, {})
    assert world.beat("a", 2, {}) == HeartbeatAnswer("a", 3, 5_000, None)


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a{2000}", "invalid repeat count"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("a\\", "trailing backslash at end of expression"),
        ("[z-a]", "invalid character class range"),
        ("a**", "invalid nested repetition operator"),
        ("*a", "missing argument to repetition operator"),
        ("(?P<n", "invalid named capture"),
        ("\\8", "invalid escape sequence"),
    ],
)
def test_what_is_no_expression(world: World, regex: str, reason: str) -> None:
    with pytest.raises(Refused) as error:
        world.join("a", regex=regex)
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert error.value.message == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."
    )
    assert world.group is None
