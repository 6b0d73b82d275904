"""Keys of streams: round trips, order, and the search for an offset."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.metadata.keys import numbers, streams
from towpath.metadata.store import prefix_end

U64 = st.integers(0, 2**64 - 1)


@given(U64, U64)
def test_padded_numbers_round_trip_and_keep_their_order(one: int, other: int) -> None:
    assert numbers.unpad(numbers.pad(one)) == one
    assert len(numbers.pad(one)) == numbers.WIDTH
    assert (numbers.pad(one) < numbers.pad(other)) == (one < other)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_numbers_that_do_not_fit_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        numbers.pad(number)


@pytest.mark.parametrize(
    "text", ["", "1", "0" * 19, "0" * 21, "+" + "0" * 19, " " + "1" * 19, "١" * 20, "9" * 20]
)
def test_texts_that_pad_does_not_write_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"digit|64-bit"):
        numbers.unpad(text)


@given(U64, U64, U64)
def test_index_entries_round_trip(stream_id: int, offset_end: int, size: int) -> None:
    key = streams.index_entry(stream_id, offset_end, size)
    assert streams.parse_index_entry(key) == (stream_id, offset_end, size)
    assert streams.is_index_entry(key)
    assert streams.index_prefix(stream_id) < key < streams.index_end(stream_id)
    assert key.startswith(streams.index_prefix(stream_id))
    assert key.startswith(streams.stream_prefix(stream_id))
    assert streams.index_end(stream_id) == prefix_end(streams.index_prefix(stream_id))


@given(st.tuples(U64, U64, U64), st.tuples(U64, U64, U64))
def test_index_entries_are_ordered_by_their_numbers(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    assert (streams.index_entry(*one) < streams.index_entry(*other)) == (one < other)


GOOD = streams.index_entry(1, 2, 3)


@pytest.mark.parametrize(
    "key",
    [
        "",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "/x",
        GOOD.replace("/dray/v1", "/dray/v2"),
        GOOD.replace("e-", "f-"),
        GOOD.replace("/offset-index/", "/offset_index/"),
        GOOD[:-21] + "~" + GOOD[-20:],
        GOOD[:-1] + "x",
        streams.first_entry_above(1, 2),
        streams.log_start(1),
        streams.producer_snapshot(1),
        streams.index_prefix(1),
    ],
)
def test_other_keys_are_no_index_entries(key: str) -> None:
    with pytest.raises(ValueError, match=r"not|fit"):
        streams.parse_index_entry(key)


@pytest.mark.parametrize("key", [streams.log_start(1), streams.producer_snapshot(1), "", "/x"])
def test_is_index_entry_tells_a_stream_s_keys_apart(key: str) -> None:
    assert not streams.is_index_entry(key)


@given(
    st.lists(st.integers(1, 2**40), min_size=1, max_size=30, unique=True).map(sorted),
    st.integers(0, 2**41),
    st.integers(1, 2**63),
)
def test_first_entry_above_finds_the_first_end_beyond_an_offset(
    ends: list[int], offset: int, size: int
) -> None:
    keys = [streams.index_entry(4, 2**63, size)]
    keys += [streams.index_entry(5, end, size) for end in ends]
    keys += [streams.log_start(5), streams.index_entry(6, 1, 1)]
    keys.sort()
    position = bisect_right(keys, streams.first_entry_above(5, offset))
    found = [key for key in keys[position:] if key < streams.index_end(5)][:1]
    wanted = [streams.index_entry(5, end, size) for end in ends if end > offset][:1]
    assert found == wanted


@given(U64)
def test_log_start_round_trips(offset: int) -> None:
    assert streams.decode_log_start(streams.encode_log_start(offset)) == offset


def test_a_negative_log_start_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        streams.encode_log_start(-1)


@pytest.mark.parametrize("value", [b"", b"1", b"1:", b"2:5", b"1:-5", b"1:x", b"5", b":5"])
def test_a_damaged_log_start_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        streams.decode_log_start(value)
