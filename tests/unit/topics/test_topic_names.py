"""Kafka's rules for topic names, in its own words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import InvalidTopicName
from towpath.topics import names

LEGAL = string.ascii_letters + string.digits + "._-"


@given(st.text(alphabet=LEGAL, min_size=1, max_size=249).filter(lambda n: n not in (".", "..")))
def test_every_legal_name_is_accepted(name: str) -> None:
    names.validate(name)
    assert names.is_valid(name)


@given(st.text(min_size=1, max_size=50).filter(lambda n: any(c not in LEGAL for c in n)))
def test_any_other_character_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicName, match="ASCII alphanumerics"):
        names.validate(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a\n", "other than ASCII alphanumerics, '.', '_' and '-'"),
        ("é", "other than ASCII alphanumerics"),
        ("a/b", "other than ASCII alphanumerics"),
    ],
)
def test_the_message_is_kafkas(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopicName) as caught:
        names.validate(name)
    assert reason in str(caught.value)


def test_the_longest_name_and_three_dots_are_fine() -> None:
    names.validate("x" * 249)
    names.validate("...")


def test_nobody_creates_the_cluster_metadata_topic() -> None:
    names.validate(names.CLUSTER_METADATA)
    with pytest.raises(InvalidTopicName, match="prohibited"):
        names.validate_new(names.CLUSTER_METADATA)


def test_internal_names() -> None:
    assert names.is_internal("__consumer_offsets")
    assert not names.is_internal("__mine")


def test_dots_and_underscores_collide() -> None:
    assert names.collision_key("a.b_c") == names.collision_key("a_b.c")
    assert names.collision_key("a-b") != names.collision_key("a.b")
