"""The compiled encoder: Arrow columns become the records of uncompressed batches.

`spans` tells where a column's bytes lie, `header_sizes` and `plan` how large everything will be and
where a batch ends, and `encode` writes the records into one array of exactly that size. Nothing is
allocated here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from towpath.records.batch import ATTRIBUTE_LOG_APPEND_TIME, HEADER_SIZE_BYTES
from towpath.records.kernels.copy import copy
from towpath.records.kernels.jit import kernel
from towpath.records.table import MICROSECONDS_PER_MS

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

# Where the fields of a record, or of a header, lie in their columns. A length of -1 means null.
KEY_AT: Final = 0
KEY_LENGTH: Final = 1
VALUE_AT: Final = 2
VALUE_LENGTH: Final = 3
SPAN_FIELDS: Final = 4

# What a batch is to be made of: rows, base offset, timestamps, the bit for LogAppendTime, and its
# size with its header.
FIRST_ROW: Final = 0
END_ROW: Final = 1
BASE_OFFSET: Final = 2
BASE_TIMESTAMP_MS: Final = 3
MAX_TIMESTAMP_MS: Final = 4
APPEND_TIME_BIT: Final = 5
SIZE_BYTES: Final = 6
BATCH_FIELDS: Final = 7

INT32_MAX: Final = (1 << 31) - 1
NULL_LENGTH: Final = -1
ATTRIBUTES_SIZE_BYTES: Final = 1


@kernel
def zigzag(number: int) -> np.uint64:
    """The number as it is written: small ones stay small, whatever their sign."""
    return np.uint64(number << 1) ^ np.uint64(number >> 63)


@kernel
def number_size(number: int) -> int:
    """How many bytes the number takes."""
    rest = zigzag(number)
    size_bytes = 1
    while rest > np.uint64(0x7F):
        rest >>= np.uint64(7)
        size_bytes += 1
    return size_bytes


@kernel
def field_size(length: int) -> int:
    """How many bytes a nullable field takes, with its length."""
    size_bytes: int = number_size(length) + max(length, 0)
    return size_bytes


@kernel
def put_number(target: Bytes, at: int, number: int) -> int:
    """Write the number; where it ends."""
    rest = zigzag(number)
    while rest > np.uint64(0x7F):
        target[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    target[at] = np.uint8(rest)
    return at + 1


@kernel
def put_field(target: Bytes, at: int, data: Bytes, span: Int64s, field: int) -> int:
    """Write a nullable field; where it ends, -1 if it does not fit."""
    length = int(span[field + 1])
    at = put_number(target, at, length)
    if length <= 0:
        return at
    if not copy(target, at, data, int(span[field]), length):
        return -1
    return at + length


@kernel
def spans(offsets: Int32s, valid: Bytes, valid_from: int, rows: Int64s, field: int) -> None:
    """Tell where a column's bytes lie. The bitmap `valid` begins at bit `valid_from`; without one
    (no bytes) nothing is null."""
    for row in range(len(rows)):
        bit = valid_from + row
        rows[row, field] = offsets[row]
        if len(valid) == 0 or valid[bit >> 3] >> np.uint8(bit & 7) & np.uint8(1):
            rows[row, field + 1] = offsets[row + 1] - offsets[row]
        else:
            rows[row, field + 1] = NULL_LENGTH


@kernel
def header_sizes(list_offsets: Int32s, headers: Int64s, sizes: Int64s) -> None:
    """How many bytes each record's headers take, with their number."""
    for row in range(len(sizes)):
        first = int(list_offsets[row])
        end = int(list_offsets[row + 1])
        size = number_size(end - first)
        for index in range(first, end):
            size += field_size(headers[index, KEY_LENGTH])
            size += field_size(headers[index, VALUE_LENGTH])
        sizes[row] = size


@kernel
def body_size(batch: Int64s, fixed_bytes: int, offset: int, timestamp_ms: int) -> int:
    """How many bytes a record takes in a batch, without its own length."""
    size_bytes: int = fixed_bytes + number_size(offset - batch[BASE_OFFSET])
    size_bytes += number_size(timestamp_ms - batch[BASE_TIMESTAMP_MS])
    return size_bytes


@kernel
def begin(batch: Int64s, row: int, base_offset: int, timestamp_ms: int, append_time: int) -> None:
    """Begin a batch with a row, which is yet to be added."""
    batch[FIRST_ROW] = row
    batch[BASE_OFFSET] = base_offset
    batch[BASE_TIMESTAMP_MS] = timestamp_ms
    batch[MAX_TIMESTAMP_MS] = timestamp_ms
    batch[APPEND_TIME_BIT] = append_time
    batch[SIZE_BYTES] = HEADER_SIZE_BYTES


@kernel
def takes(batch: Int64s, offset: int, timestamp_ms: int, append_time: int) -> bool:
    """Whether the record can be in the batch, if there is room for it. With LogAppendTime all
    records of a batch have the same timestamp."""
    if append_time != batch[APPEND_TIME_BIT] or offset - batch[BASE_OFFSET] > INT32_MAX:
        return False
    return append_time == 0 or timestamp_ms == batch[BASE_TIMESTAMP_MS]


@kernel
def plan(
    offsets: Int64s,
    timestamps_us: Int64s,
    attributes: Int32s,
    rows: Int64s,
    sizes: Int64s,
    first_base: int,
    max_batch_bytes: int,
    batches: Int64s,
) -> int:
    """Divide the rows into batches; how many there are.

    `sizes` holds the sizes of the records' headers before, and of the records' bodies afterwards.
    The first batch begins at `first_base`, the others at their first record.
    """
    count = 0
    for row in range(len(rows)):
        offset = offsets[row]
        timestamp_ms = timestamps_us[row] // MICROSECONDS_PER_MS
        append_time = int(attributes[row]) & ATTRIBUTE_LOG_APPEND_TIME
        fixed_bytes = ATTRIBUTES_SIZE_BYTES + sizes[row]
        fixed_bytes += field_size(rows[row, KEY_LENGTH]) + field_size(rows[row, VALUE_LENGTH])
        batch = batches[max(count - 1, 0)]
        fits = False
        if count > 0 and takes(batch, offset, timestamp_ms, append_time):
            size = body_size(batch, fixed_bytes, offset, timestamp_ms)
            fits = batch[SIZE_BYTES] + number_size(size) + size <= max_batch_bytes
        if not fits:
            batch = batches[count]
            begin(batch, row, offset if count > 0 else first_base, timestamp_ms, append_time)
            count += 1
        size = body_size(batch, fixed_bytes, offset, timestamp_ms)
        batch[END_ROW] = row + 1
        batch[MAX_TIMESTAMP_MS] = max(batch[MAX_TIMESTAMP_MS], timestamp_ms)
        batch[SIZE_BYTES] += number_size(size) + size
        sizes[row] = size
    return count


@kernel
def put_headers(
    target: Bytes, at: int, first: int, end: int, headers: Int64s, keys: Bytes, values: Bytes
) -> int:
    """Write a record's headers, rows `[first, end)`; where they end, -1 if they do not fit."""
    at = put_number(target, at, end - first)
    for row in range(first, end):
        at = put_field(target, at, keys, headers[row], KEY_AT)
        if at >= 0:
            at = put_field(target, at, values, headers[row], VALUE_AT)
        if at < 0:
            break
    return at


@kernel
def encode(
    target: Bytes,
    batches: Int64s,
    offsets: Int64s,
    timestamps_us: Int64s,
    sizes: Int64s,
    rows: Int64s,
    keys: Bytes,
    values: Bytes,
    list_offsets: Int32s,
    headers: Int64s,
    header_keys: Bytes,
    header_values: Bytes,
) -> bool:
    """Write the records of all batches, each behind room for its header; whether they fill
    `target` exactly."""
    at = 0
    for index in range(len(batches)):
        batch = batches[index]
        at += HEADER_SIZE_BYTES
        for row in range(batch[FIRST_ROW], batch[END_ROW]):
            timestamp_ms = timestamps_us[row] // MICROSECONDS_PER_MS
            at = put_number(target, at, sizes[row])
            target[at] = 0  # attributes
            at = put_number(target, at + 1, timestamp_ms - batch[BASE_TIMESTAMP_MS])
            at = put_number(target, at, offsets[row] - batch[BASE_OFFSET])
            at = put_field(target, at, keys, rows[row], KEY_AT)
            if at >= 0:
                at = put_field(target, at, values, rows[row], VALUE_AT)
            if at >= 0:
                first = int(list_offsets[row])
                end = int(list_offsets[row + 1])
                at = put_headers(target, at, first, end, headers, header_keys, header_values)
            if at < 0:
                return False
    return at == len(target)
