"""What compiled readers and writers call at run time: varints, arrays, byte strings.

Every length that comes from the wire is checked against the bytes that are left before anything
is allocated for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NoReturn

from towpath.objects.store import Buffer

COPY_BELOW_BYTES = 16_384
"""Byte strings below this size are copied out of the receive buffer, larger ones are views of it.

A view keeps the whole receive buffer alive; a small one would pin far more than it holds.
"""
BY_REFERENCE_BYTES = 8_192
"""Byte strings of this size and more are sent by reference, smaller ones copied into the answer."""
STRING_MAX_BYTES = 32_767
VARINT_MAX_BYTES = 5
"""An unsigned varint has 32 bits."""
SMALL_VARINTS = tuple(bytes([n]) for n in range(128))

FORMATS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
}
"""Struct codes of the fixed-size primitives other than uuid."""
SIZES = {kind: struct.calcsize(">" + code) for kind, code in FORMATS.items()} | {"uuid": 16}


class MalformedMessage(Exception):
    """The bytes are not a message of the expected schema."""


def malformed(reason: str) -> NoReturn:
    """Raise, from inside an expression or a compiled function."""
    raise MalformedMessage(reason)


def read_varint_rest(buffer: memoryview, at: int, first: int) -> tuple[int, int]:
    """The value and the position behind an unsigned varint whose `first` byte had more to come."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * VARINT_MAX_BYTES:
            malformed("a varint has more than five bytes")
    if value > 0xFFFF_FFFF:
        malformed("a varint exceeds 32 bits")
    return value, at


def read_varint(buffer: memoryview, at: int) -> tuple[int, int]:
    """The value and the position behind an unsigned varint."""
    first = buffer[at]
    if first < 0x80:
        return first, at + 1
    return read_varint_rest(buffer, at + 1, first)


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return SMALL_VARINTS[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(buffer: memoryview, at: int, count: int) -> int:
    """The position behind `count` tagged fields that nobody knows."""
    end = len(buffer)
    check_room(count, 2, end - at)
    for _ in range(count):
        _tag, at = read_varint(buffer, at)
        size, at = read_varint(buffer, at)
        at += size
        if at > end:
            malformed("a tagged field is longer than the message")
    return at


def check_room(count: int, least_bytes: int, left_bytes: int) -> None:
    """Refuse a count of elements that cannot fit into what is left."""
    if count * least_bytes > left_bytes:
        malformed(f"{count} elements do not fit into the {left_bytes} bytes left")


def string_bytes(value: str) -> bytes:
    """The UTF-8 of a string that Kafka can carry."""
    encoded = value.encode()
    if len(encoded) > STRING_MAX_BYTES:
        raise ValueError(f"a string of {len(encoded)} bytes is longer than Kafka allows")
    return encoded


def size_of(value: Buffer | Sequence[Buffer]) -> int:
    """The size of a byte string, which may be given in parts."""
    if type(value) is list or type(value) is tuple:
        return sum(map(len, value))
    return len(value)


def put_bytes(out: bytearray, chunks: list[Buffer], value: Buffer | Sequence[Buffer]) -> bytearray:
    """Add a byte string, in parts or whole; returns the buffer to go on with."""
    if type(value) is list or type(value) is tuple:
        return _put_parts(out, chunks, value)
    if len(value) < BY_REFERENCE_BYTES:
        out += value  # type: ignore[arg-type]
        return out
    chunks.append(out)
    chunks.append(value)  # type: ignore[arg-type]
    return bytearray()


def _put_parts(out: bytearray, chunks: list[Buffer], parts: Sequence[Buffer]) -> bytearray:
    # Small parts are joined before they are added: `out` would grow, and move, with each of them.
    small: list[Buffer] = []
    for part in parts:
        if len(part) < BY_REFERENCE_BYTES:
            small.append(part)
            continue
        if small:
            out += b"".join(small)
            small.clear()
        if out:
            chunks.append(out)
            out = bytearray()
        chunks.append(part)
    if small:
        out += b"".join(small)
    return out


def unpack_array(code: str, count: int, buffer: memoryview, at: int) -> list[Any]:
    """A list of `count` fixed-size values; the caller has checked that they fit."""
    return list(struct.unpack_from(f">{count}{code}", buffer, at))


def pack_array(code: str, values: Sequence[Any]) -> bytes:
    """Fixed-size values, one after the other."""
    return struct.pack(f">{len(values)}{code}", *values)
