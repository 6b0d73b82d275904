"""A file for pyarrow made of the byte ranges of an object that were read before."""

from __future__ import annotations

import io
from collections.abc import Sequence

from towpath.log.object.parquet_layout import ByteRange


class FetchedFile:
    """Reads what was fetched, without copying; anything else is an error, never other bytes.

    `ranges` are in order and do not overlap; `buffers` hold their bytes, and must stay unchanged
    as long as anything that was read from here lives. One thread at a time.
    """

    closed = False

    def __init__(
        self, size_bytes: int, ranges: Sequence[ByteRange], buffers: Sequence[memoryview]
    ) -> None:
        self._size_bytes = size_bytes
        self._fetched = [
            (wanted.position, memoryview(buffer).toreadonly())
            for wanted, buffer in zip(ranges, buffers, strict=True)
        ]
        self._at = 0

    def read(self, size: int = -1) -> memoryview | bytes:
        """The next `size` bytes, all of which must have been fetched."""
        length = self._size_bytes - self._at if size < 0 else size
        found = self._find(self._at, length)
        self._at += length
        return found

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the object."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = start + position
        return self._at

    def tell(self) -> int:
        """The place of the next read."""
        return self._at

    def close(self) -> None:
        """There is nothing to close."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def _find(self, start: int, length: int) -> memoryview | bytes:
        """The bytes from one buffer, or copied together where they continue in the next."""
        pieces: list[memoryview] = []
        at, end = start, start + length
        for position, buffer in self._fetched:
            if position <= at < position + len(buffer):
                pieces.append(buffer[at - position : end - position])
                at += len(pieces[-1])
                if at == end:
                    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if length == 0:
            return b""
        raise OSError(f"bytes [{start}, {end}) were not fetched")
