"""Rendezvous hashing: stable for ever, even, and moving as little as possible."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.cluster import rendezvous
from towpath.cluster.rendezvous import Rendezvous, mix64, weight
from towpath.metadata.keys.topics import stream_id

BROKERS = st.sets(st.integers(0, (1 << 31) - 1), min_size=2, max_size=8)
STREAMS = st.integers(0, (1 << 64) - 1)
GOLDEN_WEIGHTS = [0xE220A8397B1DCDAF, 0x44FB960B44533CE6, 0x80F29DE38C3D67BC]
GOLDEN_OWNERS = [3, 3, 3, 1, 3, 1, 2, 1, 3, 3, 1, 1]


def test_the_hash_never_changes() -> None:
    # splitmix64's published first outputs for the seed 0 are mix64(0), mix64(gamma), ...
    assert mix64(0) == 0xE220A8397B1DCDAF
    assert mix64(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
    assert weight(0, 0) == GOLDEN_WEIGHTS[0]
    assert weight(1, 1 << 20) == GOLDEN_WEIGHTS[1]
    assert weight(7, (1 << 64) - 1) == GOLDEN_WEIGHTS[2]


def test_the_owners_never_change() -> None:
    owners = Rendezvous([1, 2, 3])
    assert [owners.owner(stream_id(1, p)) for p in range(12)] == GOLDEN_OWNERS


@given(BROKERS, STREAMS)
def test_the_owner_has_the_highest_weight(brokers: set[int], stream: int) -> None:
    owner = Rendezvous(brokers).owner(stream)
    assert owner == max(brokers, key=lambda broker: weight(broker, stream))


@given(BROKERS, st.lists(STREAMS, min_size=1, max_size=50), st.data())
def test_only_the_streams_of_a_dead_broker_move(
    brokers: set[int], streams: list[int], data: st.DataObject
) -> None:
    dead = data.draw(st.sampled_from(sorted(brokers)))
    before, after = Rendezvous(brokers), Rendezvous(brokers - {dead})
    for stream in streams:
        if before.owner(stream) != dead:
            assert after.owner(stream) == before.owner(stream)
        else:
            assert after.owner(stream) != dead


def test_streams_are_spread_evenly() -> None:
    owners = Rendezvous(range(6))
    counts = Counter(owners.owner(stream_id(n, p)) for n in range(1, 101) for p in range(20))
    assert sorted(counts) == list(range(6))
    assert max(counts.values()) < 1.25 * 2000 / 6
    assert min(counts.values()) > 0.75 * 2000 / 6


def test_the_order_and_repetition_of_brokers_do_not_matter() -> None:
    left, right = Rendezvous([3, 1, 2]), Rendezvous([2, 2, 3, 1])
    assert all(left.owner(stream) == right.owner(stream) for stream in range(100))


def test_one_broker_owns_everything_and_none_is_refused() -> None:
    assert Rendezvous([5]).owner(123) == 5
    with pytest.raises(ValueError, match="at least one"):
        Rendezvous([])


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "CACHED_STREAMS_MAX", 10)
    owners = Rendezvous([1, 2])
    found = [owners.owner(stream) for stream in range(35)]
    assert len(owners._cache) <= 10
    assert [owners.owner(stream) for stream in range(35)] == found
