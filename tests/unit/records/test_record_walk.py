"""The Python walk finds every kind of fault, and the compiled walk agrees with it on any input."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from towpath.errors import InvalidBatch
from towpath.records import build, compression, walk
from towpath.records.build import NewRecord, build_batch, encode_record, varint
from towpath.records.kernels import loader
from towpath.records.walk import Walked

texts = st.text(max_size=8)
blobs = st.none() | st.binary(max_size=12)
new_records = st.builds(
    NewRecord,
    value=blobs,
    key=blobs,
    timestamp_ms=st.integers(-(1 << 40), 1 << 40) | st.sampled_from([-1, 0]),
    headers=st.lists(st.tuples(texts, blobs), max_size=3).map(tuple),
)


def encode(records: list[NewRecord], base_ms: int = 0) -> bytes:
    return b"".join(
        encode_record(record, index, record.timestamp_ms - base_ms)
        for index, record in enumerate(records)
    )


def body(*parts: bytes) -> bytes:
    """A record of these fields, its attributes before them."""
    content = b"\x00" + b"".join(parts)
    return varint(len(content)) + content


@pytest.fixture(scope="module")
def kernel() -> loader.Kernel:
    return loader.load()


@given(st.lists(new_records, min_size=1, max_size=8), st.integers(-(1 << 50), 1 << 50))
def test_walk_measures_the_true_bounds(records: list[NewRecord], base_ms: int) -> None:
    stamps = [record.timestamp_ms for record in records]
    dated = [stamp for stamp in stamps if stamp != -1]
    expected = Walked(
        walk.OK,
        len(records),
        min(stamps),
        max(stamps),
        min(dated, default=walk.INT64_MAX),
        0,
    )
    assert walk.walk(encode(records, base_ms), len(records), base_ms, False) == expected


def test_keyless_records_are_counted_and_hide_their_timestamp() -> None:
    payload = encode(
        [
            NewRecord(b"v", None, timestamp_ms=5),
            NewRecord(b"v", b"", timestamp_ms=7),
            NewRecord(b"v", None, timestamp_ms=9),
        ]
    )
    assert walk.walk(payload, 3, 0, True) == Walked(walk.OK, 3, 7, 7, 7, 2)
    assert walk.walk(payload, 3, 0, False) == Walked(walk.OK, 3, 5, 9, 5, 0)


ZERO = varint(0)
NULL = varint(-1)
FAULTS = {
    "nothing": (b"", walk.CUT_OFF),
    "longer than the data": (varint(10) + b"\x00", walk.CUT_OFF),
    "negative length": (varint(-1), walk.BAD_LENGTH),
    "empty record": (varint(0), walk.BAD_LENGTH),
    "length cut off": (b"\x80", walk.BAD_LENGTH),
    "length of six bytes": (b"\x80\x80\x80\x80\x80\x00", walk.BAD_VARINT),
    "length beyond 32 bits": (b"\xfe\xff\xff\xff\x1f", walk.BAD_VARINT),
    "timestamp beyond 64 bits": (
        body(b"\xff" * 9 + b"\x02", ZERO, NULL, NULL, ZERO),
        walk.BAD_VARINT,
    ),
    "timestamp of eleven bytes": (
        body(b"\xff" * 10 + b"\x00", ZERO, NULL, NULL, ZERO),
        walk.BAD_VARINT,
    ),
    "wrong offset delta": (body(ZERO, varint(1), NULL, NULL, ZERO), walk.BAD_OFFSET_DELTA),
    "negative offset delta": (body(ZERO, varint(-1), NULL, NULL, ZERO), walk.BAD_OFFSET_DELTA),
    "key beyond the record": (body(ZERO, ZERO, varint(9), b"k"), walk.BAD_LENGTH),
    "value beyond the record": (body(ZERO, ZERO, NULL, varint(9), b"v"), walk.BAD_LENGTH),
    "no header count": (body(ZERO, ZERO, NULL, NULL), walk.BAD_LENGTH),
    "negative header count": (body(ZERO, ZERO, NULL, NULL, NULL), walk.BAD_HEADER_COUNT),
    "too many headers": (body(ZERO, ZERO, NULL, NULL, varint(3), b"ab"), walk.BAD_HEADER_COUNT),
    "null header key": (
        body(ZERO, ZERO, NULL, NULL, varint(1), NULL, NULL),
        walk.NULL_HEADER_KEY,
    ),
    "header key beyond the record": (
        body(ZERO, ZERO, NULL, NULL, varint(1), varint(9), b"k"),
        walk.BAD_LENGTH,
    ),
    "header key not UTF-8": (
        body(ZERO, ZERO, NULL, NULL, varint(1), varint(1), b"\xff", NULL),
        walk.BAD_HEADER_KEY,
    ),
    "header value beyond the record": (
        body(ZERO, ZERO, NULL, NULL, varint(1), ZERO, varint(9), b"v"),
        walk.BAD_LENGTH,
    ),
    "bytes inside, behind the headers": (
        body(ZERO, ZERO, NULL, NULL, ZERO, b"x"),
        walk.BAD_LENGTH,
    ),
    "bytes behind the records": (body(ZERO, ZERO, NULL, NULL, ZERO) + b"x", walk.LEFT_OVER),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_code(name: str, kernel: loader.Kernel) -> None:
    payload, code = FAULTS[name]
    walked = walk.walk(payload, 1, 0, False)
    assert walked.code == code
    assert kernel(payload, 1, 0, False) == walked


def test_unusual_but_valid_numbers_are_taken(kernel: loader.Kernel) -> None:
    overlong_zero = b"\x80\x00"
    lower_null = varint(-7)
    payload = body(overlong_zero, overlong_zero, lower_null, lower_null, overlong_zero)
    expected = Walked(walk.OK, 1, 3, 3, 3, 0)
    assert walk.walk(payload, 1, 3, False) == expected == kernel(payload, 1, 3, False)


@pytest.mark.parametrize(
    ("base_ms", "delta_ms", "fits"),
    [
        (walk.INT64_MAX, 0, True),
        (walk.INT64_MAX, 1, False),
        (walk.INT64_MIN, 0, True),
        (walk.INT64_MIN, -1, False),
        (walk.INT64_MAX, walk.INT64_MIN, True),
        (walk.INT64_MIN, walk.INT64_MIN, False),
    ],
)
def test_timestamps_at_the_edge(
    base_ms: int, delta_ms: int, fits: bool, kernel: loader.Kernel
) -> None:
    payload = body(varint(delta_ms), ZERO, NULL, NULL, ZERO)
    walked = walk.walk(payload, 1, base_ms, False)
    assert (walked.code == walk.OK) is fits
    assert walked.code in (walk.OK, walk.TIMESTAMP_OVERFLOW)
    assert kernel(payload, 1, base_ms, False) == walked


# Differential


def assert_agreement(payload: bytes, count: int, base_ms: int) -> None:
    compiled = loader.load()
    for require_keys in (False, True):
        expected = walk.walk(payload, count, base_ms, require_keys)
        assert compiled(payload, count, base_ms, require_keys) == expected


int64 = st.integers(walk.INT64_MIN, walk.INT64_MAX)


@given(st.lists(new_records, min_size=1, max_size=6), st.integers(-(1 << 50), 1 << 50))
def test_kernel_agrees_on_valid_records(records: list[NewRecord], base_ms: int) -> None:
    assert_agreement(encode(records, base_ms), len(records), base_ms)


@given(
    st.lists(new_records, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(0, 4),
    int64,
)
@settings(max_examples=600)
def test_kernel_agrees_on_mutated_records(
    records: list[NewRecord], changes: list[tuple[int, int]], count: int, base_ms: int
) -> None:
    payload = bytearray(encode(records))
    for at, byte in changes:
        payload[at % len(payload)] = byte
    assert_agreement(bytes(payload), count, base_ms)


@given(st.binary(max_size=60), st.integers(0, 5), int64)
@settings(max_examples=600)
def test_kernel_agrees_on_random_bytes(payload: bytes, count: int, base_ms: int) -> None:
    assert_agreement(payload, count, base_ms)


@given(st.binary(max_size=8) | st.text(max_size=4).map(str.encode))
@settings(max_examples=600)
@example(b"\xed\xa0\x80")
@example(b"\xed\x9f\xbf")
@example(b"\xe0\x80\x80")
@example(b"\xe0\xa0\x80")
@example(b"\xf0\x8f\xbf\xbf")
@example(b"\xf0\x90\x80\x80")
@example(b"\xf4\x8f\xbf\xbf")
@example(b"\xf4\x90\x80\x80")
@example(b"\xc1\xbf")
@example(b"\xc2")
def test_kernel_agrees_on_header_keys(key: bytes) -> None:
    payload = body(ZERO, ZERO, NULL, NULL, varint(1), varint(len(key)), key, NULL)
    try:
        key.decode()
        expected = walk.OK
    except UnicodeDecodeError:
        expected = walk.BAD_HEADER_KEY
    assert walk.walk(payload, 1, 0, False).code == expected
    assert_agreement(payload, 1, 0)


def test_kernel_agrees_on_every_two_byte_lead() -> None:
    for first in range(0x80, 0x100):
        for second in range(0x70, 0xD0):
            key = bytes([first, second, 0x80, 0x80])[: 2 + (first >= 0xE0) + (first >= 0xF0)]
            payload = body(ZERO, ZERO, NULL, NULL, varint(1), varint(len(key)), key, NULL)
            assert_agreement(payload, 1, 0)


# Reading


@given(
    st.lists(new_records, min_size=1, max_size=5),
    st.sampled_from(range(len(compression.NAMES))),
)
def test_iterate_gives_back_what_was_built(records: list[NewRecord], codec: int) -> None:
    read = list(walk.iterate(build_batch(records, codec=codec)))
    assert [record.offset_delta for record in read] == list(range(len(records)))
    assert [
        NewRecord(record.value, record.key, record.timestamp_ms, record.headers) for record in read
    ] == records


@pytest.mark.parametrize("name", [name for name in FAULTS if "offset delta" not in name])
def test_iterate_refuses_damaged_records(name: str) -> None:
    batch = build.seal(FAULTS[name][0], record_count=1, last_offset_delta=0)
    with pytest.raises(InvalidBatch):
        list(walk.iterate(batch))


def test_iterate_of_an_empty_batch() -> None:
    assert list(walk.iterate(build.empty_batch(7, 3))) == []
