"""Batches become Arrow rows that hold exactly what the Python walk reads; damage is an error."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from towpath.errors import BatchError, CorruptBatch
from towpath.records import compression, table, to_arrow, walk
from towpath.records.batch import (
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTES_AT,
    HEADER_SIZE_BYTES,
    parse_header,
)
from towpath.records.build import (
    NO_PRODUCER,
    NewRecord,
    ProducerFields,
    build_batch,
    empty_batch,
    encode_record,
    reseal,
    seal,
    varint,
)
from towpath.records.open_batch import OpenBatch, open_batch
from towpath.records.to_arrow import batches_to_arrow

SCHEMA = table.arrow_schema()
TIMESTAMP_MS_MAX = ((1 << 63) - 1) // 1000
PARTITION = 3
CODECS = range(len(compression.NAMES))

GOOD = build_batch([NewRecord(b"value", b"key", 5, (("h", b"x"),)), NewRecord(b"second")])

texts = st.text(max_size=8)
blobs = st.none() | st.binary(max_size=12)
timestamps_ms = st.integers(-(1 << 40), 1 << 40) | st.sampled_from([-1, 0, 1, -1000, 1_700_000_000])
new_records = st.builds(
    NewRecord,
    value=blobs,
    key=blobs,
    timestamp_ms=timestamps_ms,
    headers=st.lists(st.tuples(texts, blobs), max_size=3).map(tuple),
)
producers = st.just(NO_PRODUCER) | st.builds(
    ProducerFields,
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 15) - 1),
    st.integers(0, (1 << 31) - 1),
)


class Made(NamedTuple):
    """A stored batch and the offset it has got, which is not the one in its bytes."""

    data: bytes
    base_offset: int


class Payload(bytearray):
    """Can be watched for its end."""


def stored(
    records: list[NewRecord], codec: int, producer: ProducerFields, append_time: int | None
) -> bytes:
    """A batch as it is stored, with LogAppendTime if there is one."""
    batch = build_batch(records, codec=codec, producer=producer)
    if append_time is None:
        return batch
    return seal(
        batch[HEADER_SIZE_BYTES:],
        record_count=len(records),
        last_offset_delta=len(records) - 1,
        attributes=codec | ATTRIBUTE_LOG_APPEND_TIME,
        base_timestamp_ms=records[0].timestamp_ms,
        max_timestamp_ms=append_time,
        producer=producer,
    )


made_batches = st.builds(
    Made,
    st.builds(
        stored,
        st.lists(new_records, min_size=1, max_size=6),
        st.sampled_from(CODECS),
        producers,
        st.none() | timestamps_ms,
    ),
    st.integers(0, 1 << 62),
)


def expected_rows(made: Made) -> list[dict[str, Any]]:
    """What the Python walk reads, as rows."""
    header = parse_header(made.data)
    known = header.producer_id >= 0
    return [
        {
            table.PARTITION: PARTITION,
            table.OFFSET: made.base_offset + record.offset_delta,
            table.TIMESTAMP: record.timestamp_ms * 1000,
            table.KEY: record.key,
            table.VALUE: record.value,
            table.HEADERS: [{"key": key, "value": value} for key, value in record.headers],
            table.PRODUCER_ID: header.producer_id if known else None,
            table.PRODUCER_EPOCH: header.producer_epoch if known else None,
            table.BASE_SEQUENCE: header.base_sequence if known else None,
            table.ATTRIBUTES: header.attributes,
        }
        for record in walk.iterate(made.data)
    ]


def decode(*batches: Made) -> pa.RecordBatch:
    rows = batches_to_arrow(batches, PARTITION, SCHEMA)
    rows.validate(full=True)
    assert rows.schema.equals(SCHEMA, check_metadata=True)
    return rows


def plain(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows with timestamps as microseconds, which may lie beyond Python's years."""
    at = rows.schema.get_field_index(table.TIMESTAMP)
    microseconds = rows.column(at).cast(pa.int64())
    return list(rows.set_column(at, table.TIMESTAMP, microseconds).to_pylist())


@pytest.fixture(scope="module", autouse=True)
def loaded_kernels() -> None:
    """Compiling takes longer than an example may."""
    batches_to_arrow([(GOOD, 0)], PARTITION, SCHEMA)


@given(st.lists(made_batches, max_size=5))
def test_rows_are_what_the_python_walk_reads(batches: list[Made]) -> None:
    expected = [row for made in batches for row in expected_rows(made)]
    assert plain(decode(*batches)) == expected


@given(st.lists(made_batches, min_size=2, max_size=5), st.integers(0, 40))
def test_rows_are_the_same_when_batches_are_taken_apart_one_by_one(
    batches: list[Made], bytes_expected: int
) -> None:
    opened = [open_batch(made.data, made.base_offset) for made in batches]
    together = to_arrow.decode_batches(opened, PARTITION, SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_arrow, "CHUNK_BYTES", 1)
        rows = to_arrow.decode_batches(iter(opened), PARTITION, SCHEMA, bytes_expected)
    rows.validate(full=True)
    assert rows.equals(together)


@given(st.lists(made_batches, max_size=3), st.sets(st.sampled_from(SCHEMA.names), min_size=1))
def test_only_the_wanted_columns(batches: list[Made], names: set[str]) -> None:
    chosen = [name for name in reversed(SCHEMA.names) if name in names]
    schema = pa.schema([SCHEMA.field(name) for name in chosen])
    rows = batches_to_arrow(batches, PARTITION, schema)
    rows.validate(full=True)
    assert rows.equals(decode(*batches).select(chosen))


def test_batches_are_opened_when_their_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decompressed is taken apart before the next is: a group is never held as a whole."""
    alive, most = 0, 0

    def one_goes() -> None:
        nonlocal alive
        alive -= 1

    def opened() -> Iterator[OpenBatch]:
        nonlocal alive, most
        for number in range(20):
            base_offset, header, payload = open_batch(GOOD, 2 * number)
            held = Payload(payload)
            weakref.finalize(held, one_goes)
            alive += 1
            most = max(most, alive)
            yield OpenBatch(base_offset, header, held)
            del held

    monkeypatch.setattr(to_arrow, "CHUNK_BYTES", 1)
    assert to_arrow.decode_batches(opened(), PARTITION, SCHEMA).num_rows == 40
    assert most <= 2


@pytest.mark.parametrize("codec", CODECS, ids=compression.NAMES)
def test_every_codec_at_a_size_where_it_matters(codec: int) -> None:
    records = [NewRecord(b"%d" % i * 100, b"k%d" % i, i) for i in range(3000)]
    made = Made(build_batch(records, codec=codec), 7)
    assert plain(decode(made)) == expected_rows(made)


def test_null_and_empty_are_told_apart_and_headers_keep_their_order() -> None:
    headers = (("b", b"1"), ("a", None), ("b", b""), ("", b"2"))
    records = [NewRecord(None, b""), NewRecord(b"", None, headers=headers), NewRecord(b"", b"")]
    rows = decode(Made(build_batch(records), 0))
    assert rows.column(table.KEY).to_pylist() == [b"", None, b""]
    assert rows.column(table.VALUE).to_pylist() == [None, b"", b""]
    pairs = [{"key": key, "value": value} for key, value in headers]
    assert rows.column(table.HEADERS).to_pylist() == [[], pairs, []]


def test_columns_without_nulls_have_no_bitmap() -> None:
    rows = decode(Made(build_batch([NewRecord(b"v", b"k")], producer=ProducerFields(1, 0, 0)), 0))
    for name in (table.KEY, table.VALUE, table.PRODUCER_ID):
        assert rows.column(name).buffers()[0] is None


def test_field_ids_are_those_of_the_given_schema() -> None:
    ids = {path: 100 + number for path, number in table.DEFAULT_FIELD_IDS.items()}
    schema = table.arrow_schema(ids)
    rows = batches_to_arrow([(build_batch([NewRecord(b"v")]), 0)], 0, schema)
    assert rows.schema.equals(schema, check_metadata=True)


def test_no_batches_and_batches_without_records_give_no_rows() -> None:
    assert decode().num_rows == 0
    full = Made(build_batch([NewRecord(b"v")]), 10)
    rows = decode(Made(empty_batch(0, 4), 5), full, Made(empty_batch(0, 1), 11))
    assert rows.column(table.OFFSET).to_pylist() == [10]


def test_offsets_follow_their_deltas() -> None:
    payload = b"".join(encode_record(NewRecord(b"v"), delta, 0) for delta in (2, 5, (1 << 31) - 1))
    made = Made(seal(payload, record_count=3, last_offset_delta=(1 << 31) - 1), 100)
    assert decode(made).column(table.OFFSET).to_pylist() == [102, 105, 99 + (1 << 31)]


def test_rows_own_their_memory() -> None:
    data = bytearray(build_batch([NewRecord(b"value", b"key", headers=(("h", b"x"),))]))
    rows = batches_to_arrow([(data, 0)], PARTITION, SCHEMA)
    before = rows.to_pylist()
    data[:] = bytes(len(data))
    assert rows.to_pylist() == before


# Damage


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[: HEADER_SIZE_BYTES - 1],
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD[:16] + b"\x01" + GOOD[17:],
        GOOD[:-1] + b"\x01",
    ],
    ids=["nothing", "half a header", "cut off", "a byte more", "magic", "checksum"],
)
def test_damage_names_the_base_offset(data: bytes) -> None:
    with pytest.raises(CorruptBatch, match="offset 4711"):
        decode(Made(GOOD, 0), Made(data, 4711))


@given(st.integers(ATTRIBUTES_AT, len(GOOD) - 1), st.integers(1, 255))
def test_a_changed_byte_fails_the_checksum(at: int, change: int) -> None:
    data = bytearray(GOOD)
    data[at] ^= change
    with pytest.raises(CorruptBatch):
        decode(Made(bytes(data), 0))


@settings(max_examples=500)
@given(st.data(), made_batches)
def test_damage_behind_a_right_checksum_is_an_error_or_reads_the_same(
    data: st.DataObject, made: Made
) -> None:
    """Any change to records or header that has got a checksum: never a crash, never other rows."""
    mutated = bytearray(made.data)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(ATTRIBUTES_AT, len(mutated) - 1))
        mutated[at] = data.draw(st.integers(0, 255) | st.sampled_from([0x7F, 0x80, 0xFF]))
    damaged = Made(reseal(mutated), made.base_offset)
    try:
        rows = decode(Made(GOOD, 0), damaged)
    except CorruptBatch:
        _assert_walk_refuses(damaged)
    else:
        assert plain(rows)[2:] == expected_rows(damaged)


def _assert_walk_refuses(made: Made) -> None:
    """The Python walk finds it wrong as well, but for what only a table cannot hold."""
    header = parse_header(made.data)
    try:
        records = list(walk.iterate(made.data))
    except BatchError:
        return
    too_far = any(abs(record.timestamp_ms) > TIMESTAMP_MS_MAX for record in records)
    assert too_far or header.record_count < 0


@given(st.binary(max_size=200), st.integers(-2, 40))
@example(varint(1 << 30) + b"\x00" * 6, 1)
def test_arbitrary_bytes_never_crash(payload: bytes, count: int) -> None:
    made = Made(seal(payload, record_count=count, last_offset_delta=max(count - 1, 0)), 9)
    try:
        rows = decode(made)
    except CorruptBatch:
        return
    assert plain(rows) == expected_rows(made)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (varint(1) + varint(-1) + varint(0), "without a key"),
        (varint(1) + varint(1) + b"\xff" + varint(0), "not UTF-8"),
        (varint(-1), "impossible number"),
        (varint(9) + b"\x00\x00", "impossible number"),
        (varint(1) + varint(9) + b"a" + varint(0), "length"),
        (varint(1) + varint(0) + varint(0) + b"\x00", "length"),
    ],
)
def test_wrong_headers_name_the_record(headers: bytes, reason: str) -> None:
    body = b"\x00" + varint(0) + varint(1) + varint(-1) + varint(-1) + headers
    payload = encode_record(NewRecord(b"v"), 0, 0) + varint(len(body)) + body
    made = Made(seal(payload, record_count=2, last_offset_delta=1), 40)
    with pytest.raises(CorruptBatch, match=f"offset 40 .*record 1 .*{reason}"):
        decode(Made(GOOD, 0), made)


@pytest.mark.parametrize("count", [-1, 3, (1 << 31) - 1])
def test_more_records_than_bytes_allocate_nothing(count: int) -> None:
    made = Made(seal(b"\x00" * 14, record_count=count, last_offset_delta=0), 0)
    with pytest.raises(CorruptBatch, match="records in 14 bytes"):
        decode(made)


@pytest.mark.parametrize("append_time", [None, TIMESTAMP_MS_MAX + 1])
def test_timestamps_beyond_microseconds_are_refused(append_time: int | None) -> None:
    record = NewRecord(b"v", timestamp_ms=TIMESTAMP_MS_MAX + (append_time is None))
    with pytest.raises(CorruptBatch, match="timestamp"):
        decode(Made(stored([record], 0, NO_PRODUCER, append_time), 0))


@pytest.mark.parametrize("timestamp_ms", [TIMESTAMP_MS_MAX, -TIMESTAMP_MS_MAX])
def test_the_furthest_timestamps_fit(timestamp_ms: int) -> None:
    made = Made(build_batch([NewRecord(b"v", timestamp_ms=timestamp_ms)]), 0)
    assert plain(decode(made)) == expected_rows(made)


def test_too_many_bytes_for_one_arrow_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_arrow, "ARROW_BYTES_MAX", 2 * (len(GOOD) - HEADER_SIZE_BYTES))
    assert decode(Made(GOOD, 0), Made(GOOD, 2)).num_rows == 4
    with pytest.raises(OverflowError, match="3 batches"):
        decode(Made(GOOD, 0), Made(GOOD, 2), Made(GOOD, 4))


@given(made_batches, st.integers(0, (1 << 16) - 1))
def test_any_attributes_are_kept(made: Made, bits: int) -> None:
    """Control batches and bits of the future are rows like others; only the codec matters."""
    codec = parse_header(made.data).compression
    attributes = (bits & ~0x07 | codec).to_bytes(2, "big")
    data = bytearray(made.data)
    data[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = attributes
    changed = Made(reseal(data), made.base_offset)
    assume(abs(parse_header(changed.data).max_timestamp_ms) <= TIMESTAMP_MS_MAX)
    assert plain(decode(changed)) == expected_rows(changed)
