"""Reads values of Thrift's compact protocol, the form of Parquet footers.

pyarrow ends the process when its footer accessors meet some kinds of damage (an exception of C++
that nobody catches). Whatever is wrong with the bytes here is a ValueError or IndexError.
"""

from __future__ import annotations

import struct
from typing import Any

from towpath.objects.store import Buffer

STOP = 0
TRUE = 1
FALSE = 2
BYTE = 3
DOUBLE = 7
BINARY = 8
LIST = 9
SET = 10
MAP = 11
STRUCT = 12
INTEGERS = (4, 5, 6)
"""Of 16, 32 and 64 bits; all are zigzag varints."""
LONG_SIZE = 15
MAX_DEPTH = 16
MAX_SHIFT = 63

Struct = dict[int, Any]
"""Fields by id: numbers, bytes, lists and structs."""


class CompactReader:
    """Reads forward over bytes."""

    def __init__(self, data: Buffer) -> None:
        self._data = bytes(data)
        self._at = 0

    def struct(self, depth: int = 0) -> Struct:
        """The struct that begins here."""
        if depth > MAX_DEPTH:
            raise ValueError("structs are nested too deeply")
        fields: Struct = {}
        number = 0
        while (head := self._byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            fields[number] = kind == TRUE if kind <= FALSE else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in INTEGERS:
            return self._zigzag()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth)
        if kind in (BYTE, TRUE, FALSE):
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        # Nothing in a Parquet footer is a map.
        raise ValueError(f"unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size = self._varint() if head >> 4 == LONG_SIZE else head >> 4
        if size > len(self._data) - self._at:
            raise ValueError("a list is longer than the bytes")
        kind = head & 15
        return [self._value(kind, depth) for _ in range(size)]

    def _bytes(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("a value is longer than the bytes")
        found = self._data[self._at : end]
        self._at = end
        return found

    def _byte(self) -> int:
        found = self._data[self._at]
        self._at += 1
        return found

    def _varint(self) -> int:
        data = self._data
        at = self._at
        byte = data[at]
        value = byte & 0x7F
        shift = 7
        while byte & 0x80:
            if shift > MAX_SHIFT:
                raise ValueError("a number does not fit 64 bits")
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
        self._at = at + 1
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
