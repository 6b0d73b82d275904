"""The compiled decoder: the record bytes of many batches become the buffers of Arrow columns.

First `find` walks over the records and notes where their fields lie, `find_headers` does the same
for headers, then `gather` copies one column after the other. (Doing it all at once was half as
fast: the arrays of all columns do not fit the registers.) Nothing is allocated here. Every read is
checked against the record's end and every write against its array; `records/walk.py` has the codes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from towpath.records.kernels.copy import copy
from towpath.records.kernels.jit import kernel
from towpath.records.kernels.walk import is_utf8, number
from towpath.records.table import MICROSECONDS_PER_MS
from towpath.records.walk import (
    BAD_HEADER_COUNT,
    BAD_HEADER_KEY,
    BAD_LENGTH,
    CUT_OFF,
    INT64_MAX,
    LEFT_OVER,
    NULL_HEADER_KEY,
    OK,
    TIMESTAMP_OVERFLOW,
)

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

# What the array of batches says of each: where its records begin and end in the data, how many
# there are, and how offsets and timestamps are to be told from their deltas.
START: Final = 0
END: Final = 1
COUNT: Final = 2
BASE_OFFSET: Final = 3
BASE_TIMESTAMP_MS: Final = 4
MAX_TIMESTAMP_MS: Final = 5
IS_APPEND_TIME: Final = 6
BATCH_FIELDS: Final = 7

# Where a record's fields lie in the data. A length below 0 means null. A header has the first four.
KEY_AT: Final = 0
KEY_LENGTH: Final = 1
VALUE_AT: Final = 2
VALUE_LENGTH: Final = 3
HEADERS_AT: Final = 4
HEADER_COUNT: Final = 5
RECORD_END: Final = 6
RECORD_FIELDS: Final = 7
HEADER_FIELDS: Final = 4

TIMESTAMP_MS_MAX: Final = INT64_MAX // MICROSECONDS_PER_MS
HEADER_SIZE_BYTES_MIN: Final = 2


@kernel
def bytes_at(data: Bytes, at: int, end: int, fields: Int32s, field: int) -> tuple[int, int]:
    """Note where the bytes behind the length at `at` lie; code and where they end."""
    code, length, at = number(data, at, end, 32)
    if code != OK:
        return code, at
    if length > end - at:
        return BAD_LENGTH, at
    fields[field] = at
    fields[field + 1] = length
    return OK, at + max(length, 0)


@kernel
def record(data: Bytes, at: int, limit: int, fields: Int32s) -> tuple[int, int, int, int]:
    """Note the fields of one record; code, its end, and its timestamp and offset delta."""
    code, length, at = number(data, at, limit, 32)
    if code != OK:
        return code, at, 0, 0
    if length < 0:
        return BAD_LENGTH, at, 0, 0
    end = at + length
    if end > limit:
        return CUT_OFF, at, 0, 0
    code, timestamp_delta_ms, at = number(data, at + 1, end, 64)
    if code != OK:
        return code, at, 0, 0
    code, offset_delta, at = number(data, at, end, 32)
    if code != OK:
        return code, at, 0, 0
    code, at = bytes_at(data, at, end, fields, KEY_AT)
    if code != OK:
        return code, at, 0, 0
    code, at = bytes_at(data, at, end, fields, VALUE_AT)
    if code != OK:
        return code, at, 0, 0
    code, header_count, at = number(data, at, end, 32)
    if code != OK:
        return code, at, 0, 0
    if header_count < 0 or header_count > (end - at) // HEADER_SIZE_BYTES_MIN:
        return BAD_HEADER_COUNT, at, 0, 0
    if header_count == 0 and at != end:
        return BAD_LENGTH, at, 0, 0
    fields[HEADERS_AT] = at
    fields[HEADER_COUNT] = header_count
    fields[RECORD_END] = end
    return OK, end, timestamp_delta_ms, offset_delta


@kernel
def timestamp_us(batch: Int64s, delta_ms: int) -> tuple[int, int]:
    """Code and a record's timestamp in microseconds."""
    base_ms = batch[BASE_TIMESTAMP_MS]
    timestamp_ms = base_ms + delta_ms
    if batch[IS_APPEND_TIME]:
        timestamp_ms = batch[MAX_TIMESTAMP_MS]
    # A sum overflowed if its sign differs from that of both summands.
    elif ((base_ms ^ timestamp_ms) & (delta_ms ^ timestamp_ms)) < 0:
        return TIMESTAMP_OVERFLOW, 0
    if timestamp_ms < -TIMESTAMP_MS_MAX or timestamp_ms > TIMESTAMP_MS_MAX:
        return TIMESTAMP_OVERFLOW, 0
    return OK, timestamp_ms * MICROSECONDS_PER_MS


@kernel
def find(
    data: Bytes, batches: Int64s, offsets: Int64s, timestamps_us: Int64s, records: Int32s
) -> tuple[int, int, int]:
    """Walk over all records: fill their offsets and timestamps and note their fields.

    Code, and which batch and record it is about.
    """
    row = 0
    for index in range(len(batches)):
        batch = batches[index]
        at = batch[START]
        for in_batch in range(batch[COUNT]):
            code, at, timestamp_delta_ms, offset_delta = record(data, at, batch[END], records[row])
            if code != OK:
                return code, index, in_batch
            code, stamp_us = timestamp_us(batch, timestamp_delta_ms)
            if code != OK:
                return code, index, in_batch
            offsets[row] = batch[BASE_OFFSET] + offset_delta
            timestamps_us[row] = stamp_us
            row += 1
        if at != batch[END]:
            return LEFT_OVER, index, batch[COUNT]
    return OK, len(batches), 0


@kernel
def find_headers(
    data: Bytes, records: Int32s, list_offsets: Int32s, headers: Int32s
) -> tuple[int, int]:
    """Note the fields of all headers, and which belong to a record; code and row of the record.

    `headers` has as many rows as the records count together.
    """
    header_row = 0
    for row in range(len(records)):
        at = int(records[row, HEADERS_AT])
        end = int(records[row, RECORD_END])
        for _ in range(records[row, HEADER_COUNT]):
            fields = headers[header_row]
            code, at = bytes_at(data, at, end, fields, KEY_AT)
            if code != OK:
                return code, row
            if fields[KEY_LENGTH] < 0:
                return NULL_HEADER_KEY, row
            if not is_utf8(data, fields[KEY_AT], at):
                return BAD_HEADER_KEY, row
            code, at = bytes_at(data, at, end, fields, VALUE_AT)
            if code != OK:
                return code, row
            header_row += 1
        if at != end:
            return BAD_LENGTH, row
        list_offsets[row + 1] = header_row
    return OK, 0


@kernel
def gather(
    data: Bytes, rows: Int32s, field: int, offsets: Int32s, target: Bytes, valid: Bytes
) -> int:
    """Copy one field of all rows behind each other; how many are null, -1 if they do not fit.

    `offsets[0]` is 0 and `valid`, a bitmap, all zeros before.
    """
    nulls = 0
    at = 0
    for row in range(len(rows)):
        length = int(rows[row, field + 1])
        if length < 0:
            nulls += 1
        elif copy(target, at, data, int(rows[row, field]), length):
            at += length
            valid[row >> 3] |= np.uint8(1) << np.uint8(row & 7)
        else:
            return -1
        offsets[row + 1] = at
    return nulls
