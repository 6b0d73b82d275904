"""The compiled walk over a batch's records; `records/walk.py` says what it judges and how.

It mirrors the Python walk step by step, so that both find the same thing wrong in the same record.
Numbers are read into unsigned 64 bits, checked, and only then given a sign.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from towpath.records.kernels.jit import kernel
from towpath.records.walk import (
    BAD_HEADER_COUNT,
    BAD_HEADER_KEY,
    BAD_LENGTH,
    BAD_OFFSET_DELTA,
    BAD_VARINT,
    CUT_OFF,
    INT64_MAX,
    INT64_MIN,
    LEFT_OVER,
    NULL_HEADER_KEY,
    OK,
    TIMESTAMP_OVERFLOW,
)

Bytes = NDArray[np.uint8]
Numbers = tuple[int, int, int, int, int, int]


@kernel
def number(data: Bytes, at: int, end: int, bits: int) -> tuple[int, int, int]:
    """Code, zigzag number and where it ends."""
    if at >= end:
        return BAD_LENGTH, 0, at
    byte = np.uint64(data[at])
    at += 1
    value = byte & np.uint64(0x7F)
    shift = 7
    while byte & np.uint64(0x80):
        if shift >= bits:
            return BAD_VARINT, 0, at
        if at >= end:
            return BAD_LENGTH, 0, at
        byte = np.uint64(data[at])
        at += 1
        if shift == 63 and byte & np.uint64(0x7F) > np.uint64(1):
            return BAD_VARINT, 0, at
        value |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        shift += 7
    if bits == 32 and value > np.uint64(0xFFFFFFFF):
        return BAD_VARINT, 0, at
    half = np.int64(value >> np.uint64(1))
    if value & np.uint64(1):
        half = -half - np.int64(1)
    return OK, half, at  # type: ignore[return-value]


@kernel
def is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether `data[at:end]` is well-formed UTF-8 (no surrogates, nothing overlong)."""
    while at < end:
        first = data[at]
        if first < 0x80:
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if end - at <= more:
            return False
        if data[at + 1] < low or data[at + 1] > high:
            return False
        for following in range(at + 2, at + more + 1):
            if data[following] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@kernel
def headers(data: Bytes, at: int, end: int, count: int) -> tuple[int, int]:
    """Code and the headers' end."""
    if count < 0 or count > end - at:
        return BAD_HEADER_COUNT, at
    for _ in range(count):
        code, key_length, at = number(data, at, end, 32)
        if code != OK:
            return code, at
        if key_length < 0:
            return NULL_HEADER_KEY, at
        if key_length > end - at:
            return BAD_LENGTH, at
        if not is_utf8(data, at, at + key_length):
            return BAD_HEADER_KEY, at
        at += key_length
        code, value_length, at = number(data, at, end, 32)
        if code != OK:
            return code, at
        at += max(value_length, 0)
    return OK, at


@kernel
def record(data: Bytes, at: int, index: int) -> tuple[int, int, int, bool]:
    """Code, the record's end, its timestamp delta and whether it has a key."""
    size = len(data)
    if at >= size:
        return CUT_OFF, at, 0, False
    code, length, at = number(data, at, size, 32)
    if code != OK:
        return code, at, 0, False
    if length < 0:
        return BAD_LENGTH, at, 0, False
    end = at + length
    if end > size:
        return CUT_OFF, at, 0, False
    code, timestamp_delta, at = number(data, at + 1, end, 64)
    if code != OK:
        return code, at, 0, False
    code, offset_delta, at = number(data, at, end, 32)
    if code != OK:
        return code, at, 0, False
    if offset_delta != index:
        return BAD_OFFSET_DELTA, at, 0, False
    code, key_length, at = number(data, at, end, 32)
    if code != OK:
        return code, at, 0, False
    code, value_length, at = number(data, at + max(key_length, 0), end, 32)
    if code != OK:
        return code, at, 0, False
    code, header_count, at = number(data, at + max(value_length, 0), end, 32)
    if code != OK:
        return code, at, 0, False
    if header_count != 0:
        code, at = headers(data, at, end, header_count)
        if code != OK:
            return code, at, 0, False
    if at != end:
        return BAD_LENGTH, at, 0, False
    return OK, end, timestamp_delta, key_length >= 0


@kernel
def walk(data: Bytes, count: int, base_timestamp_ms: int, require_keys: bool) -> Numbers:
    """The fields of `Walked` as a plain tuple."""
    at = 0
    keyless = 0
    low = INT64_MAX
    low_dated = INT64_MAX
    high = INT64_MIN
    for index in range(count):
        code, at, delta, has_key = record(data, at, index)
        if code != OK:
            return code, index, 0, 0, 0, 0
        if require_keys and not has_key:
            keyless += 1
            continue
        timestamp = base_timestamp_ms + delta
        # A sum overflowed if its sign differs from that of both summands.
        if ((base_timestamp_ms ^ timestamp) & (delta ^ timestamp)) < 0:
            return TIMESTAMP_OVERFLOW, index, 0, 0, 0, 0
        low = min(low, timestamp)
        high = max(high, timestamp)
        if timestamp != -1:
            low_dated = min(low_dated, timestamp)
    if at != len(data):
        return LEFT_OVER, count, 0, 0, 0, 0
    return OK, count, low, high, low_dated, keyless
