"""Rows as they come become the columns that record batches are made of; bad ones are refused.

value       binary or string; null is a tombstone
key         binary or string, optional
headers     list of (key string, value binary or string), optional
partition   int, optional; null lets the partitioner decide
timestamp   with a time zone, optional; null is the time of writing; cut to milliseconds
topic       string, optional; must be the topic that is written to
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from towpath.records import table
from towpath.records.validate import TABLE_TIMESTAMP_MS_MAX
from towpath.writing.errors import WriteRefused
from towpath.writing.target import Target

TOPIC = "topic"
COLUMNS = (table.VALUE, table.KEY, table.HEADERS, table.PARTITION, table.TIMESTAMP, TOPIC)
"""Every column that may be there, by its name in lower case."""
HEADER_KEY = "key"
HEADER_VALUE = "value"

_HEADER = pa.struct(
    [pa.field(HEADER_KEY, pa.string(), nullable=False), (HEADER_VALUE, pa.binary())]
)
_SCHEMA = pa.schema(
    [
        (table.PARTITION, pa.int32()),
        (table.TIMESTAMP, table.TIMESTAMP_TYPE),
        (table.KEY, pa.binary()),
        (table.VALUE, pa.binary()),
        (table.HEADERS, pa.list_(_HEADER)),
    ]
)


def to_rows(batch: pa.RecordBatch, target: Target, now_ms: int) -> pa.RecordBatch:
    """The batch's rows with exactly the columns of `_SCHEMA`, of which only partition, key and
    value may be null. Raises WriteRefused for a row that the topic cannot have."""
    named = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
    unknown = sorted(set(named) - set(COLUMNS))
    if unknown or table.VALUE not in named or len(named) < batch.num_columns:
        raise WriteRefused(f"a topic has the columns {', '.join(COLUMNS)}, not {sorted(named)}")
    count = batch.num_rows
    if TOPIC in named:
        _check_topic(named[TOPIC], target.topic)
    keys = _bytes(named.get(table.KEY), count)
    if target.require_keys and keys.null_count:
        raise WriteRefused(
            f"{keys.null_count} rows have no key; the compacted topic {target.topic!r} needs one"
        )
    columns = [
        _partitions(named.get(table.PARTITION), count, target),
        _timestamps(named.get(table.TIMESTAMP), count, target, now_ms),
        keys,
        _bytes(named[table.VALUE], count),
        _headers(named.get(table.HEADERS), count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _check_topic(column: pa.Array, topic: str) -> None:
    others = column.filter(pc.fill_null(pc.not_equal(column, topic), True))
    if len(others):
        raise WriteRefused(
            f"a row is for topic {others[0].as_py()!r}, but the write goes to {topic!r}: "
            "write each topic by itself"
        )


def _bytes(column: pa.Array | None, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, pa.binary())
    try:
        return column.cast(pa.binary())
    except pa.ArrowException as error:
        raise WriteRefused(f"a column of {column.type} is not bytes: {error}") from error


def _partitions(column: pa.Array | None, count: int, target: Target) -> pa.Array:
    if column is None:
        return pa.nulls(count, pa.int32())
    bounds = pc.min_max(column)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not 0 <= bound < target.partitions:
            raise WriteRefused(
                f"a row is for partition {bound}; topic {target.topic!r} has partitions 0 to "
                f"{target.partitions - 1}"
            )
    return column.cast(pa.int32())


def _timestamps(column: pa.Array | None, count: int, target: Target, now_ms: int) -> pa.Array:
    now_us = now_ms * table.MICROSECONDS_PER_MS
    if column is None or target.log_append_time:
        times = pa.array(np.full(count, now_us, np.int64))
        return times.view(table.TIMESTAMP_TYPE)
    times = pc.fill_null(column.cast(table.TIMESTAMP_TYPE).view(pa.int64()), now_us)
    if count:
        bounds = pc.min_max(times)
        low_ms = bounds["min"].as_py() // table.MICROSECONDS_PER_MS
        high_ms = bounds["max"].as_py() // table.MICROSECONDS_PER_MS
        _check_timestamps(low_ms, high_ms, target, now_ms)
    return times.view(table.TIMESTAMP_TYPE)


def _check_timestamps(low_ms: int, high_ms: int, target: Target, now_ms: int) -> None:
    """As for a producer; and as Java's producer does, nothing before 1970."""
    earliest_ms = max(now_ms - target.timestamp_before_max_ms, 0)
    latest_ms = min(now_ms + target.timestamp_after_max_ms, TABLE_TIMESTAMP_MS_MAX)
    for at_ms in (low_ms, high_ms):
        if not earliest_ms <= at_ms <= latest_ms:
            raise WriteRefused(
                f"a row has the timestamp {at_ms} ms; topic {target.topic!r} takes {earliest_ms} "
                f"to {latest_ms}"
            )


def _headers(column: pa.Array | None, count: int) -> pa.Array:
    """Lists without nulls: a row without headers has an empty one."""
    if column is None:
        offsets = pa.array(np.zeros(count + 1, np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array([], _HEADER))
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32()).to_numpy()
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    pairs = column.flatten()
    by_name = {field.name.lower(): pairs.field(at) for at, field in enumerate(pairs.type)}
    names = by_name[HEADER_KEY].cast(pa.string())
    if pairs.null_count or names.null_count:
        raise WriteRefused("a header is null, or has no key")
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise WriteRefused(f"a header's key is not UTF-8: {error}") from error
    values = by_name[HEADER_VALUE].cast(pa.binary())
    headers = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(offsets), headers)
