"""Rows go where the Java client would send them, and those without a key everywhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.writing.helpers_writing import Row, batch_of

from towpath.records.kernels.murmur2 import murmur2
from towpath.records.key_hashes import key_partitions
from towpath.writing.partitioner import Partitioner


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # From the tests of Apache Kafka's clients (UtilsTest).
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_the_java_client(key: bytes, hashed: int) -> None:
    found = murmur2(np.frombuffer(key, np.uint8), 0, len(key))
    assert int(found) == hashed & 0xFFFF_FFFF
    keys = pa.array([None, key, b""])
    for partitions in (1, 2, 7, 1000):
        assert key_partitions(keys, partitions)[1] == (hashed & 0x7FFF_FFFF) % partitions
        assert key_partitions(keys.slice(1), partitions)[0] == key_partitions(keys, partitions)[1]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=9), st.none() | st.integers(0, 3)), max_size=50
    ),
    st.integers(0, 3),
)
def test_named_first_then_by_key_then_in_turn(
    rows: list[tuple[bytes | None, int | None]], first: int
) -> None:
    batch = batch_of([Row(b"", key, partition=partition) for key, partition in rows])
    assigned = Partitioner(4, first).assign(batch).tolist()
    by_key = key_partitions(batch.column("key"), 4)
    in_turn = []
    for at, (key, named) in enumerate(rows):
        if named is not None:
            assert assigned[at] == named
        elif key is not None:
            assert assigned[at] == by_key[at]
        else:
            in_turn.append(assigned[at])
    counts = np.bincount(in_turn, minlength=4)
    run = -(-len(in_turn) // 4)
    assert counts.max(initial=0) <= run
    if in_turn:
        assert in_turn[0] == first


def test_small_batches_take_turns() -> None:
    partitioner = Partitioner(3, 2)
    one = batch_of([Row(b"1")])
    assert [int(partitioner.assign(one)[0]) for _ in range(5)] == [2, 0, 1, 2, 0]
    assert Partitioner(1, 0).assign(one).tolist() == [0]
