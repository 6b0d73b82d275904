"""Rows become batches that hold the same records and cover the asked range without a gap."""

from __future__ import annotations

import io
import struct
import warnings
from itertools import pairwise
from typing import NamedTuple

import aiokafka.record.default_records as aiokafka_records
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.records import table, walk
from towpath.records.batch import (
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTES_AT,
    HEADER_SIZE_BYTES,
    parse_header,
)
from towpath.records.from_arrow import COLUMNS, Rebuilt, arrow_to_batches, empty_batch
from towpath.records.to_arrow import batches_to_arrow

with warnings.catch_warnings():
    # kafka-python uses a deprecated function while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records as kafka_python_records

SCHEMA = table.arrow_schema()
INT32_MAX = (1 << 31) - 1
LARGE = 1 << 30
CODEC_BITS = 0x07


class Row(NamedTuple):
    """What a record is to a reader."""

    offset: int
    timestamp_ms: int
    append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


blobs = st.none() | st.binary(max_size=20)
timestamps_ms = st.integers(-(1 << 50), 1 << 50) | st.sampled_from([-1, 0, 5])
gaps = st.sampled_from([0, 0, 0, 1, 5, 200]) | st.integers(0, 3 << 31)


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    offset = draw(st.integers(0, 1 << 40))
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(gaps)
        headers = draw(st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3))
        append_time = draw(st.booleans())
        fields = draw(timestamps_ms), append_time, draw(blobs), draw(blobs)
        rows.append(Row(offset, *fields, tuple(headers)))
        offset += 1
    return rows


def as_arrow(rows: list[Row]) -> pa.RecordBatch:
    """The rows in the table's columns, with compression bits as stored batches had them."""

    def column(name: str, values: list[object]) -> pa.Array:
        return pa.array(values, SCHEMA.field(name).type)

    pairs = [[{"key": key, "value": value} for key, value in row.headers] for row in rows]
    attributes = [row.append_time * ATTRIBUTE_LOG_APPEND_TIME | CODEC_BITS & 3 for row in rows]
    columns = {
        table.PARTITION: column(table.PARTITION, [0] * len(rows)),
        table.OFFSET: column(table.OFFSET, [row.offset for row in rows]),
        table.TIMESTAMP: pa.array([row.timestamp_ms * 1000 for row in rows], pa.int64()).cast(
            table.TIMESTAMP_TYPE
        ),
        table.KEY: column(table.KEY, [row.key for row in rows]),
        table.VALUE: column(table.VALUE, [row.value for row in rows]),
        table.HEADERS: column(table.HEADERS, list(pairs)),
        table.PRODUCER_ID: column(table.PRODUCER_ID, [7] * len(rows)),
        table.PRODUCER_EPOCH: column(table.PRODUCER_EPOCH, [1] * len(rows)),
        table.BASE_SEQUENCE: column(table.BASE_SEQUENCE, [None] * len(rows)),
        table.ATTRIBUTES: column(table.ATTRIBUTES, list(attributes)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def read_back(batches: list[Rebuilt]) -> list[Row]:
    """The records as the Python walk reads them, from bytes alone."""
    return [
        Row(
            header.base_offset + record.offset_delta,
            record.timestamp_ms,
            bool(header.attributes & ATTRIBUTE_LOG_APPEND_TIME),
            record.key,
            record.value,
            record.headers,
        )
        for batch in batches
        for header in [parse_header(batch.data)]
        for record in walk.iterate(batch.data)
    ]


def check_cover(batches: list[Rebuilt], start: int, end: int) -> None:
    """Each offset of the range lies in exactly one batch."""
    bounds = [(batch.base_offset, batch.last_offset) for batch in batches]
    if start == end:
        assert bounds == []
        return
    assert bounds[0][0] == start
    assert bounds[-1][1] == end - 1
    assert all(first <= last for first, last in bounds)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(bounds))


def check_bytes(batch: Rebuilt) -> None:
    """Header and checksum are those of an uncompressed batch of no producer."""
    header = parse_header(batch.data)
    assert header.size_bytes == len(batch.data)
    assert header.crc == crc32c(batch.data[ATTRIBUTES_AT:])
    assert (header.leader_epoch, header.magic) == (0, 2)
    assert header.base_offset == batch.base_offset
    assert header.base_offset + header.last_offset_delta == batch.last_offset
    assert header.attributes in (0, ATTRIBUTE_LOG_APPEND_TIME)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.max_timestamp_ms == batch.max_timestamp_ms
    stamps = [record.timestamp_ms for record in walk.iterate(batch.data)]
    assert header.record_count == len(stamps)
    if stamps:
        assert header.base_timestamp_ms == stamps[0]
        assert header.max_timestamp_ms == max(stamps)
    else:
        assert bytes(batch.data) == empty_batch(batch.base_offset, batch.last_offset)


@pytest.fixture(scope="module", autouse=True)
def loaded_kernels() -> None:
    """Compiling takes longer than an example may."""
    rebuilt = arrow_to_batches(
        as_arrow([Row(0, 0, False, b"", b"", (("h", b""),))]), 0, 1, max_batch_bytes=LARGE
    )
    batches_to_arrow([(rebuilt[0].data, 0)], 0, SCHEMA)


@settings(max_examples=300)
@given(row_lists(), st.integers(0, 1 << 33), st.integers(0, 1 << 33), st.integers(1, 400))
def test_records_come_back_and_the_range_is_covered(
    rows: list[Row], before: int, after: int, max_batch_bytes: int
) -> None:
    first = rows[0].offset if rows else 0
    start = max(0, first - before)
    end = (rows[-1].offset + 1 if rows else start) + after
    batches = arrow_to_batches(as_arrow(rows), start, end, max_batch_bytes=max_batch_bytes)
    check_cover(batches, start, end)
    assert read_back(batches) == rows
    for batch in batches:
        check_bytes(batch)
        assert len(batch.data) <= max_batch_bytes or parse_header(batch.data).record_count <= 1


@given(row_lists())
def test_only_what_must_be_apart_is_apart(rows: list[Row]) -> None:
    end = rows[-1].offset + 1 if rows else 0
    start = rows[0].offset if rows else 0
    batches = arrow_to_batches(as_arrow(rows), start, end, max_batch_bytes=LARGE)
    full = [batch for batch in batches if parse_header(batch.data).record_count]
    for batch, following in pairwise(full):
        last, first = read_back([batch])[-1], read_back([following])[0]
        other_type = last.append_time != first.append_time
        other_time = first.append_time and last.timestamp_ms != first.timestamp_ms
        too_far = first.offset - batch.base_offset > INT32_MAX
        assert other_type or other_time or too_far


@given(row_lists(), st.data())
def test_slices_and_chunks_are_read_alike(rows: list[Row], data: st.DataObject) -> None:
    arrow = as_arrow(rows)
    low, high = sorted(data.draw(st.integers(0, len(rows))) for _ in range(2))
    middle = data.draw(st.integers(low, high))
    part = rows[low:high]
    start, end = (part[0].offset, part[-1].offset + 1) if part else (3, 9)
    # A copy has neither offsets nor bitmaps that it does not need.
    whole = arrow_to_batches(as_arrow(part), start, end, max_batch_bytes=200)
    sliced = arrow_to_batches(arrow.slice(low, high - low), start, end, max_batch_bytes=200)
    chunks = [arrow.slice(low, middle - low), arrow.slice(middle, high - middle)]
    chunked = pa.Table.from_batches(chunks, SCHEMA)
    assert chunked.num_rows == high - low
    assert sliced == whole
    assert arrow_to_batches(chunked, start, end, max_batch_bytes=200) == whole
    assert read_back(whole) == part


@given(row_lists())
def test_arrow_to_batches_to_arrow(rows: list[Row]) -> None:
    end = rows[-1].offset + 1 if rows else 0
    arrow = as_arrow(rows)
    batches = arrow_to_batches(arrow, 0, end, max_batch_bytes=LARGE)
    again = batches_to_arrow([(batch.data, batch.base_offset) for batch in batches], 0, SCHEMA)
    for name in (table.OFFSET, table.TIMESTAMP, table.KEY, table.VALUE, table.HEADERS):
        assert again.column(name).equals(arrow.column(name)), name


def test_rows_read_from_parquet() -> None:
    rows = [
        Row(10 + 2 * i, i * 7, i > 700, b"k" * (i % 5) or None, b"v" * i, (("h", None),) * (i % 3))
        for i in range(1000)
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([as_arrow(rows)]), file, row_group_size=300)
    found = pq.read_table(file, columns=list(COLUMNS))
    batches = arrow_to_batches(found, 0, 5000, max_batch_bytes=10_000)
    assert read_back(batches) == rows
    check_cover(batches, 0, 5000)


def test_a_gap_belongs_to_the_batch_before_it() -> None:
    rows = [Row(offset, 0, False, None, bytes(50)) for offset in (3, 4, 9, 20)]
    batches = arrow_to_batches(as_arrow(rows), 1, 30, max_batch_bytes=200)
    assert [batch[:2] for batch in batches] == [(1, 8), (9, 29)]
    assert [record.offset_delta for record in walk.iterate(batches[0].data)] == [2, 3]


def test_batches_are_as_large_as_they_may_be() -> None:
    rows = [Row(offset, 0, False, None, bytes(50)) for offset in range(10)]
    whole = arrow_to_batches(as_arrow(rows), 0, 10, max_batch_bytes=LARGE)
    size_bytes = len(whole[0].data)
    assert arrow_to_batches(as_arrow(rows), 0, 10, max_batch_bytes=size_bytes) == whole
    parts = arrow_to_batches(as_arrow(rows), 0, 10, max_batch_bytes=size_bytes - 1)
    assert [batch.last_offset for batch in parts] == [8, 9]


def test_ranges_too_wide_for_a_batch_get_empty_ones() -> None:
    row = Row(3 << 31, 5, False, b"k", b"v")
    batches = arrow_to_batches(as_arrow([row]), 0, 6 << 31, max_batch_bytes=LARGE)
    check_cover(batches, 0, 6 << 31)
    counts = [parse_header(batch.data).record_count for batch in batches]
    assert counts == [0, 0, 0, 1, 0, 0]
    assert read_back(batches) == [row]


def test_no_rows_are_one_empty_batch() -> None:
    for none in (as_arrow([]), pa.Table.from_batches([], SCHEMA)):
        (batch,) = arrow_to_batches(none, 100, 200, max_batch_bytes=1)
        assert batch[:3] == (100, 199, -1)
        check_bytes(batch)
    assert arrow_to_batches(as_arrow([]), 7, 7, max_batch_bytes=1) == []


def test_an_empty_batch_is_as_kafka_leaves_one() -> None:
    header = parse_header(empty_batch(100, 199))
    assert len(empty_batch(100, 199)) == HEADER_SIZE_BYTES == header.size_bytes
    assert (header.last_offset_delta, header.record_count) == (99, 0)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, -1)
    with pytest.raises(struct.error):
        empty_batch(0, 1 << 31)


@pytest.mark.parametrize("module", [kafka_python_records, aiokafka_records])
def test_foreign_decoders_read_them(module: object) -> None:
    headers = (("h", b"1"), ("h", None))
    rows = [
        Row(5 + 3 * i, 100 - i, False, b"k", None if i % 2 else b"v", headers) for i in range(9)
    ]
    (batch,) = arrow_to_batches(as_arrow(rows), 2, 50, max_batch_bytes=LARGE)
    foreign = module.DefaultRecordBatch(bytearray(batch.data))  # type: ignore[attr-defined]
    assert foreign.validate_crc()
    assert (foreign.base_offset, foreign.last_offset_delta, foreign.next_offset) == (2, 47, 50)
    seen = [
        Row(record.offset, record.timestamp, False, record.key, record.value, headers)
        for record in foreign
        if [tuple(pair) for pair in record.headers] == list(headers)
    ]
    assert seen == rows


@pytest.mark.parametrize(
    ("offsets", "start", "end"),
    [([5, 5], 0, 10), ([6, 5], 0, 10), ([4], 5, 10), ([10], 5, 10), ([], 6, 5), ([], -1, 5)],
)
def test_wrong_ranges_are_refused(offsets: list[int], start: int, end: int) -> None:
    rows = as_arrow([Row(offset, 0, False, None, None) for offset in offsets])
    with pytest.raises(ValueError, match=r"offset|range"):
        arrow_to_batches(rows, start, end, max_batch_bytes=LARGE)


def test_other_types_and_nulls_are_refused() -> None:
    rows = as_arrow([Row(0, 0, False, None, None)])
    at = rows.schema.get_field_index(table.OFFSET)
    with pytest.raises(ValueError, match="int32"):
        arrow_to_batches(
            rows.set_column(at, table.OFFSET, pa.array([0], pa.int32())), 0, 1, max_batch_bytes=1
        )
    with pytest.raises(ValueError, match="null"):
        arrow_to_batches(
            rows.set_column(at, table.OFFSET, pa.array([None], pa.int64())), 0, 1, max_batch_bytes=1
        )
