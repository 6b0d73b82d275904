"""Rows of one partition become record batches as a producer makes them: without an id, base offset
0, compressed where that makes them smaller."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from towpath.records import build, compression, table
from towpath.records.batch import (
    ATTRIBUTE_LOG_APPEND_TIME,
    HEADER_SIZE_BYTES,
    BatchInfo,
    parse_header,
)
from towpath.records.from_arrow import Rebuilt, arrow_to_batches
from towpath.writing.errors import WriteRefused
from towpath.writing.target import Target


def make_batches(rows: pa.RecordBatch, target: Target) -> list[BatchInfo]:
    """The batches that hold these rows in their order; see `rows.to_rows` for the columns. Raises
    WriteRefused for a record that is too large for the topic."""
    count = rows.num_rows
    times_us = rows.column(rows.schema.get_field_index(table.TIMESTAMP))
    attributes = ATTRIBUTE_LOG_APPEND_TIME if target.log_append_time else 0
    columns = {
        table.OFFSET: pa.array(np.arange(count, dtype=np.int64)),
        table.TIMESTAMP: times_us,
        table.KEY: rows.column(rows.schema.get_field_index(table.KEY)),
        table.VALUE: rows.column(rows.schema.get_field_index(table.VALUE)),
        table.HEADERS: rows.column(rows.schema.get_field_index(table.HEADERS)),
        table.ATTRIBUTES: pa.array(np.full(count, attributes, np.int32)),
    }
    plain = arrow_to_batches(
        pa.RecordBatch.from_pydict(columns), 0, count, max_batch_bytes=target.batch_max_bytes
    )
    times_ms = times_us.view(pa.int64()).to_numpy() // table.MICROSECONDS_PER_MS
    return [_sealed(batch, times_ms, target) for batch in plain]


def _sealed(plain: Rebuilt, times_ms: NDArray[np.int64], target: Target) -> BatchInfo:
    header = parse_header(plain.data)
    payload = plain.data[HEADER_SIZE_BYTES:]
    if len(plain.data) > target.decompressed_max_bytes:
        raise _too_large(len(plain.data), target.decompressed_max_bytes, target)
    codec = target.codec
    packed = compression.compress(codec, payload)
    if len(packed) >= len(payload):
        codec, packed = compression.NONE, bytes(payload)
    data = build.seal(
        packed,
        attributes=header.attributes | codec,
        record_count=header.record_count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
    )
    if len(data) > target.max_message_bytes:
        raise _too_large(len(data), target.max_message_bytes, target)
    low_ms = int(times_ms[plain.base_offset : plain.last_offset + 1].min())
    return BatchInfo(data, header.record_count, low_ms, plain.max_timestamp_ms)


def _too_large(size_bytes: int, max_bytes: int, target: Target) -> WriteRefused:
    return WriteRefused(
        f"a record takes {size_bytes} bytes, topic {target.topic!r} takes {max_bytes} "
        "(max.message.bytes)"
    )
