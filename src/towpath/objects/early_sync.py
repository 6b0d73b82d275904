"""A file whose bytes go to the disk while it is still being written.

A large file that is synced only at its end makes its writer wait for the disk, with nothing to do
meanwhile. Here the kernel is told to begin with each part as soon as it is written, so that the
sync at the end, which alone makes the file durable, finds little left.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Callable
from typing import Any, Final

PART_BYTES: Final = 4 << 20
"""How much is written before the disk is asked to begin with it."""
SYNC_FILE_RANGE_WRITE: Final = 2

BeginSync = Callable[[int, int, int], Any]
"""Begins to write a file's bytes to the disk: descriptor, position and length. Does not wait."""


def _find_begin_sync() -> BeginSync | None:
    """Linux's call; None elsewhere, where the last sync does all of the work."""
    try:
        call = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    # What goes wrong is told again by the sync at the end, which everybody has to wait for.
    return lambda fd, position, length: call(fd, position, length, SYNC_FILE_RANGE_WRITE)


_begin_sync: Final = _find_begin_sync()


class EarlySyncFile(io.BufferedWriter):
    """A new file open for writing, given its descriptor, which it closes."""

    def __init__(self, fd: int, begin_sync: BeginSync | None = _begin_sync) -> None:
        super().__init__(io.FileIO(fd, "wb"))
        self._begin_sync = begin_sync
        self._written_bytes = 0
        self._begun_bytes = 0

    def write(self, data: Any, /) -> int:
        """Write all of it."""
        count = super().write(data)
        self._written_bytes += count
        length = self._written_bytes - self._begun_bytes
        if self._begin_sync is not None and length >= PART_BYTES:
            self.flush()
            self._begin_sync(self.fileno(), self._begun_bytes, length)
            self._begun_bytes = self._written_bytes
        return count
