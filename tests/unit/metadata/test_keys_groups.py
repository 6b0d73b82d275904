"""Keys of groups: every id is one segment, and every key can be taken apart again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.metadata.keys import groups
from towpath.metadata.rules import MAX_KEY_BYTES, check_key
from towpath.metadata.store import prefix_end

ID = st.text(st.characters(codec="utf-8"), max_size=30)
TOPIC = st.text("abcXYZ019._-", min_size=1, max_size=30)


@given(ID, TOPIC, st.integers(0, 2**31 - 1))
def test_keys_of_offsets_round_trip(group_id: str, topic: str, partition: int) -> None:
    key = groups.offset(group_id, topic, partition)
    check_key(key)
    assert groups.parse_offset(key) == (group_id, topic, partition)
    assert groups.parse(key).group_id == group_id


@given(ID, st.integers(0, 2**31 - 1))
def test_keys_round_trip(group_id: str, broker_id: int) -> None:
    assert groups.parse(groups.state(group_id)) == groups.GroupKey(group_id, "state", "")
    assert groups.parse(groups.lease(group_id)) == groups.GroupKey(group_id, "lease", "")
    assert groups.parse(groups.config(group_id)) == groups.GroupKey(group_id, "config", "")
    assert groups.parse_seen(groups.seen(group_id, broker_id)) == (group_id, broker_id)
    blob = groups.blob(group_id, groups.blob_name(7, b"x"))
    assert groups.parse(blob).kind == groups.BLOBS


@given(ID, ID)
def test_keys_of_two_groups_never_mix(one: str, other: str) -> None:
    if one == other:
        return
    start, end = groups.prefix(one), prefix_end(groups.prefix(one))
    assert not start <= groups.state(other) < end


@given(st.integers(0, 2**64 - 1), st.binary())
def test_a_blob_s_name_tells_its_base(base: int, content: bytes) -> None:
    name = groups.blob_name(base, content)
    assert groups.blob_base(name) == base
    assert name == groups.blob_name(base, content)


def test_the_longest_id_fits_a_key() -> None:
    group_id = "ü" * (groups.SEGMENT_MAX_BYTES // 6)
    assert groups.fits(group_id)
    assert not groups.fits(group_id + "u")
    longest = groups.offset(group_id, "t" * 249, 2**31 - 1)
    assert len(longest) <= MAX_KEY_BYTES
    check_key(longest)


@pytest.mark.parametrize(
    "key",
    [
        "/dray/v1/topics/a/b",
        "/dray/v1/groups/",
        "/dray/v1/groups/a",
        "/dray/v1/groups//state",
        "/dray/v1/groups/ü/state",
        "/dray/v1/groups/%zz/state",
        "/dray/v1/groups/%ff/state",
    ],
)
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="group"):
        groups.parse(key)


@pytest.mark.parametrize(
    "rest", ["offsets/t", "offsets/t/1", "offsets//0000001", "state", "offsets/t/000000x"]
)
def test_keys_that_are_no_offsets_are_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="committed offset"):
        groups.parse_offset(f"/dray/v1/groups/g/{rest}")


@pytest.mark.parametrize("rest", ["seen/1", "seen/", "state", "seen/000000000x"])
def test_keys_that_are_no_digests_are_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="digest"):
        groups.parse_seen(f"/dray/v1/groups/g/{rest}")


@pytest.mark.parametrize("name", ["", "1-ab", "0" * 20 + "-" + "a" * 31, "x" * 20 + "-" + "a" * 32])
def test_names_that_are_no_blobs_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not"):
        groups.blob_base(name)
