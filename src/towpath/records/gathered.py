"""Columns of bytes that are gathered piece by piece out of records on the wire."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class GatheredColumn:
    """Fields of the same kind, all in one buffer that grows."""

    def __init__(self, bytes_expected: int = 0) -> None:
        self._target = np.empty(bytes_expected, np.uint8)
        self._used_bytes = 0
        self._starts: list[NDArray[np.int32]] = []
        self._valid: list[NDArray[np.uint8]] = []
        self._nulls = 0

    def add(
        self, kernels: ModuleType, data: NDArray[np.uint8], rows: NDArray[np.int32], field: int
    ) -> None:
        """Append one field of the rows."""
        size_bytes = _size_bytes(rows, field)
        start = self._used_bytes
        self._make_room(start + size_bytes)
        offsets, valid = _offsets_and_valid(rows)
        target = self._target[start : start + size_bytes]
        self._nulls += _gather(kernels, data, rows, field, offsets, target, valid)
        offsets += start
        self._starts.append(offsets[:-1])
        self._valid.append(valid)
        self._used_bytes += size_bytes

    def column(self) -> pa.Array:
        """All of it as Arrow's."""
        end = np.array([self._used_bytes], np.int32)
        offsets = np.concatenate([*self._starts, end])
        bitmap = pa.py_buffer(self._bitmap()) if self._nulls else None
        target = self._target[: self._used_bytes]
        if len(target) < len(self._target) // 2:
            # Whoever keeps the column should not keep the rest.
            target = target.copy()
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(target)]
        return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, self._nulls)

    def _make_room(self, size_bytes: int) -> None:
        if size_bytes > len(self._target):
            grown = np.empty(max(size_bytes, 2 * len(self._target)), np.uint8)
            grown[: self._used_bytes] = self._target[: self._used_bytes]
            self._target = grown

    def _bitmap(self) -> NDArray[np.uint8]:
        """The bitmaps of all pieces, which need not end where a byte does."""
        pieces = zip(self._valid, self._starts, strict=True)
        bits = [np.unpackbits(valid, count=len(of), bitorder="little") for valid, of in pieces]
        return np.packbits(np.concatenate(bits), bitorder="little")


def binary_column(
    kernels: ModuleType,
    data: NDArray[np.uint8],
    rows: NDArray[np.int32],
    field: int,
    kind: pa.DataType,
) -> pa.Array:
    """One field of the rows as a column of bytes or text."""
    offsets, valid = _offsets_and_valid(rows)
    target = np.empty(_size_bytes(rows, field), np.uint8)
    nulls = _gather(kernels, data, rows, field, offsets, target, valid)
    bitmap = pa.py_buffer(valid) if nulls else None
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(target)]
    return pa.Array.from_buffers(kind, len(rows), buffers, nulls)


def _size_bytes(rows: NDArray[np.int32], field: int) -> int:
    return int(np.maximum(rows[:, field + 1], 0).sum(dtype=np.int64))


def _offsets_and_valid(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    return np.zeros(len(rows) + 1, np.int32), np.zeros((len(rows) + 7) // 8, np.uint8)


def _gather(
    kernels: ModuleType,
    data: NDArray[np.uint8],
    rows: NDArray[np.int32],
    field: int,
    offsets: NDArray[np.int32],
    target: NDArray[np.uint8],
    valid: NDArray[np.uint8],
) -> int:
    """How many of the rows are null."""
    nulls: int = kernels.gather(data, rows, field, offsets, target, valid)
    assert nulls >= 0, "the fields found are those that are gathered"
    return nulls
