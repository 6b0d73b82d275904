"""Values of committed offsets, and the mark of commits from outside."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.metadata.keys import groups, offsets
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.keys.offsets import CommittedOffset

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-1, 2**31 - 1)
OFFSET = st.builds(
    CommittedOffset,
    offset=INT64,
    metadata=st.text(st.characters(codec="utf-8")),
    commit_timestamp_ms=INT64,
    topic_id=st.uuids(),
    generation=INT32,
    leader_epoch=INT32,
    expire_timestamp_ms=st.none() | INT64,
)


@given(OFFSET)
def test_offsets_round_trip(offset: CommittedOffset) -> None:
    assert CommittedOffset.decode(offset.encode()) == offset


def test_the_value_is_json_of_the_specified_fields() -> None:
    topic_id = uuid.UUID(int=7)
    offset = CommittedOffset(5, 'a"\n', 1000, topic_id, 3, 2, 2000)
    assert json.loads(offset.encode()) == {
        "version": 1,
        "offset": 5,
        "leaderEpoch": 2,
        "metadata": 'a"\n',
        "commitTimestampMs": 1000,
        "expireTimestampMs": 2000,
        "topicId": str(topic_id),
        "generation": 3,
    }


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":2}',
        b'{"version":1}',
        CommittedOffset(5, "", 1, uuid.UUID(int=7)).encode().replace(b"00000000-", b"x-"),
        CommittedOffset(5, "", 1, uuid.UUID(int=7)).encode().replace(b'"offset"', b'"offs"'),
        CommittedOffset(5, "", 1, uuid.UUID(int=7)).encode()[:-1],
    ],
)
def test_damaged_values_are_refused(value: bytes) -> None:
    with pytest.raises(UnknownValueVersion):
        CommittedOffset.decode(value)


@given(st.text(max_size=20), st.text("aZ0._-", min_size=1, max_size=20), st.integers(0, 2**20))
def test_keys(group_id: str, topic: str, partition: int) -> None:
    key = offsets.key_under(groups.topic_offsets_prefix(group_id, topic), partition)
    assert key == groups.offset(group_id, topic, partition)
    mark = offsets.mark(group_id)
    assert groups.offsets_prefix(group_id) < mark < key
    assert offsets.is_mark(mark)
    assert not offsets.is_mark(key)
