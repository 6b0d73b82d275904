"""Keys and values of topics, the cluster and WAL objects."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.metadata.keys import ROOT, cluster, groups, json_value, offsets, topics, wal, writers
from towpath.metadata.store import prefix_end

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBER = st.integers(0, 2**62)
VALUES: list[Any] = [
    st.builds(cluster.ClusterInfo, TEXT, NUMBER, NUMBER),
    st.builds(
        cluster.BrokerRecord,
        *(NUMBER, TEXT, NUMBER, NUMBER, TEXT),
        zone_id=st.none() | TEXT,
        rack=st.none() | TEXT,
        http_url=st.none() | TEXT,
    ),
    st.builds(topics.TopicRecord, st.uuids(), NUMBER, NUMBER, st.dictionaries(TEXT, TEXT), NUMBER),
    st.builds(topics.PartitionRecord, NUMBER, NUMBER, TEXT),
    st.builds(topics.DeletedTopic, TEXT, st.uuids(), NUMBER, NUMBER),
    st.builds(wal.StagingBlock, TEXT, NUMBER, NUMBER, st.none() | NUMBER),
    st.builds(wal.WalObject, TEXT, NUMBER, NUMBER, st.lists(NUMBER).map(tuple)),
    st.builds(wal.Deref, TEXT),
    st.builds(wal.GcOrder, TEXT, NUMBER),
    st.builds(writers.CurrentBlock, st.uuids()),
    st.builds(writers.Progress, TEXT, st.integers(-1, 2**62), NUMBER),
    st.builds(
        groups.GroupRoot,
        *(TEXT, TEXT, TEXT, TEXT, st.lists(TEXT, max_size=3).map(tuple)),
        st.lists(st.binary(max_size=20), max_size=3).map(tuple),
        st.dictionaries(TEXT, NUMBER | TEXT),
    ),
    st.builds(groups.GroupLease, NUMBER, NUMBER),
    st.builds(groups.SeenDigest, st.dictionaries(TEXT, NUMBER)),
    st.builds(groups.GroupConfig, st.dictionaries(TEXT, TEXT)),
    st.builds(
        offsets.CommittedOffset,
        *(NUMBER, TEXT, NUMBER, st.uuids(), st.integers(-1, 2**31), st.integers(-1, 2**31)),
        st.none() | NUMBER,
    ),
]
KINDS = [
    *(cluster.ClusterInfo, cluster.BrokerRecord),
    *(topics.TopicRecord, topics.PartitionRecord, topics.DeletedTopic),
    *(wal.StagingBlock, wal.WalObject, wal.Deref, wal.GcOrder),
    *(writers.CurrentBlock, writers.Progress),
    *(groups.GroupRoot, groups.GroupLease, groups.SeenDigest),
    *(groups.GroupConfig, offsets.CommittedOffset),
]


@given(st.one_of(VALUES))
def test_values_round_trip(value: Any) -> None:
    assert type(value).decode(value.encode()) == value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"[]", b"1", b'"version"', b"\xff", b'{"version":2}', b'{"version":1}', b"{"],
)
def test_damaged_and_newer_values_are_refused(kind: Any, value: bytes) -> None:
    with pytest.raises(json_value.UnknownValueVersion):
        kind.decode(value)


@given(st.one_of(VALUES))
def test_a_value_names_its_version_first(value: Any) -> None:
    assert value.encode().startswith(b'{"version":1,')


@given(st.integers(1, 2**44 - 1), st.integers(0, topics.MAX_PARTITIONS - 1))
def test_stream_ids_round_trip(number: int, partition: int) -> None:
    stream = topics.stream_id(number, partition)
    assert 0 < stream < 2**64
    assert topics.split_stream_id(stream) == (number, partition)


@given(st.integers(1, 2**44 - 2), st.integers(0, topics.MAX_PARTITIONS - 1))
def test_a_topic_s_streams_lie_together(number: int, partition: int) -> None:
    assert topics.stream_id(number, partition) < topics.stream_id(number + 1, 0)


@pytest.mark.parametrize(
    ("number", "partition"),
    [(0, 0), (-1, 0), (1 << 44, 0), (1, -1), (1, topics.MAX_PARTITIONS)],
)
def test_numbers_without_a_stream_id_are_refused(number: int, partition: int) -> None:
    with pytest.raises(ValueError, match="no stream id"):
        topics.stream_id(number, partition)


def test_topic_keys_tell_topics_from_partitions() -> None:
    name = "a.topic-name_1"
    assert topics.is_topic(topics.topic(name))
    assert not topics.is_topic(topics.partition(name, 0))
    assert not topics.is_topic(topics.TOPICS_PREFIX)
    assert not topics.is_topic(topics.deleted(1))
    assert topics.topic_name(topics.topic(name)) == name
    assert topics.topic_name(topics.partition(name, 3)) == name
    assert topics.partition(name, 3).startswith(topics.partitions_prefix(name))


@given(st.lists(st.integers(0, topics.MAX_PARTITIONS - 1), unique=True))
def test_partition_keys_are_in_numeric_order(numbers: list[int]) -> None:
    assert sorted(topics.partition("t", number) for number in numbers) == [
        topics.partition("t", number) for number in sorted(numbers)
    ]


@given(st.integers(0, 2**64 - 1))
def test_graves_round_trip(number: int) -> None:
    assert topics.parse_deleted(topics.deleted(number)) == number


@pytest.mark.parametrize(
    "key", ["", topics.DELETED_PREFIX, topics.deleted(1) + "0", topics.TOPICS_PREFIX + "0" * 24]
)
def test_other_keys_are_no_graves(key: str) -> None:
    with pytest.raises(ValueError, match=r"not|number"):
        topics.parse_deleted(key)


@given(st.lists(st.integers(0, 2**31 - 1), unique=True))
def test_broker_keys_are_in_numeric_order(ids: list[int]) -> None:
    keys = [cluster.broker("c", number) for number in sorted(ids)]
    assert sorted(keys) == keys
    assert all(key.startswith(cluster.brokers_prefix("c")) for key in keys)


BLOCKS = st.integers(0, 2**128 - 1).map(wal.new_block)


@given(BLOCKS, st.integers(0, wal.BLOCK_SIZE_IDS - 1))
def test_wal_ids_of_a_block_lie_under_its_prefix(block: uuid.UUID, number: int) -> None:
    assert block.version == 4
    identity = wal.wal_id(block, number)
    assert wal.block_of(identity) == block
    assert identity.int - block.int == number
    key = wal.wal_object(3, identity)
    prefix = wal.wal_objects_of_block(3, block)
    assert prefix <= key < prefix_end(prefix)
    assert key.startswith(wal.wal_objects_prefix(3))
    for each in (key, wal.staging(3, identity), wal.gc(3, identity)):
        assert wal.parse_last_uuid(each) == identity


@given(BLOCKS, st.integers(0, 2**40))
def test_drawn_wal_ids_belong_to_their_block(block: uuid.UUID, bits: int) -> None:
    drawn = wal.drawn_wal_id(block, bits)
    assert wal.block_of(drawn) == block
    assert drawn.int - block.int == bits & 0xFFFF_FFFF
    if drawn != block:
        with pytest.raises(ValueError, match="no block"):
            wal.drawn_wal_id(drawn, 0)


@given(TEXT, TEXT, st.integers(0, 2**63))
def test_writers_have_progress_of_their_own(one: str, other: str, number: int) -> None:
    key = writers.progress(number, one)
    assert key.startswith(writers.progress_prefix(number))
    assert (key == writers.progress(number, other)) == (one == other)
    assert key != writers.progress(number + 1, one)


@given(BLOCKS, st.integers(0, wal.BLOCK_SIZE_IDS - 2))
def test_wal_ids_of_a_block_are_in_order(block: uuid.UUID, number: int) -> None:
    keys = [wal.wal_object(0, wal.wal_id(block, each)) for each in (number, number + 1)]
    assert keys[0] < keys[1]


def test_wal_ids_outside_a_block_are_refused() -> None:
    block = wal.new_block(2**128 - 1)
    for number in (-1, wal.BLOCK_SIZE_IDS):
        with pytest.raises(ValueError, match="has no walId"):
            wal.wal_id(block, number)
    with pytest.raises(ValueError, match="has no walId"):
        wal.wal_id(wal.wal_id(block, 1), 1)


@pytest.mark.parametrize(
    "key", ["", "/x/", "/x/123", "/x/{" + "0" * 32 + "}", "/x/" + "F" * 32, "/x/" + "g" * 32]
)
def test_keys_without_a_plain_uuid_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wal.parse_last_uuid(key)


def test_derefs_lie_under_their_object() -> None:
    identity = wal.wal_id(wal.new_block(7), 7)
    assert wal.deref(identity, 5).startswith(wal.derefs_prefix(identity))
    assert wal.deref(identity, 9) < wal.deref(identity, 10)
    with pytest.raises(ValueError, match="64-bit"):
        wal.deref(identity, -1)


def test_every_family_lies_under_the_versioned_root() -> None:
    block = wal.new_block(1)
    for key in (
        cluster.INFO,
        cluster.PRODUCER_IDS,
        cluster.broker("c", 1),
        topics.topic("t"),
        topics.partition("t", 0),
        topics.NEXT_NUMBER,
        topics.deleted(1),
        wal.staging(0, block),
        wal.wal_object(0, block),
        wal.deref(block, 1),
        wal.gc(0, block),
    ):
        assert key.startswith(f"{ROOT}/")
    for prefix, key in (
        (wal.staging_prefix(2), wal.staging(2, block)),
        (wal.gc_prefix(2), wal.gc(2, block)),
    ):
        assert key.startswith(prefix)
        assert not wal.staging(3, block).startswith(prefix)
