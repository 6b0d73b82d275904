"""An object as a file: for readers that seek."""

from __future__ import annotations

import io
from typing import Protocol

from towpath.objects.store import Buffer


class Ranges(Protocol):
    """Where parts of objects can be read."""

    def read(self, path: str, offset: int, length: int) -> Buffer:
        """As `WorkerObjects` has it."""


class RangeFile(io.RawIOBase):
    """An object as a file that Arrow and DuckDB can seek in; every read is a range read."""

    def __init__(self, objects: Ranges, path: str, size_bytes: int) -> None:
        self._objects = objects
        self._path = path
        self._size_bytes = size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> Buffer:
        """Up to `size` bytes; what lies beyond the end is not there."""
        left = max(0, self._size_bytes - self._at)
        length = left if size < 0 else min(size, left)
        data = self._objects.read(self._path, self._at, length) if length else b""
        self._at += length
        return data
