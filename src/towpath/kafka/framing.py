"""From a stream of bytes to frames, without copying frames that arrive in one read.

A frame is a four-byte length and that many bytes. A frame that does not arrive in one read gets a
buffer of its own, into which the rest is read directly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from towpath.kafka.arena import BufferPool, ReceiveArena

LENGTH_BYTES = 4
FRAME_LEAST_BYTES = 8
"""A request has at least an API key, a version and a correlation id."""
_LENGTH = struct.Struct(">i")


class MalformedFrame(Exception):
    """The length prefix is not acceptable; the stream cannot be followed any further."""


class FrameReader:
    """Cuts one connection's bytes into frames.

    `admit(size_bytes)` is asked before memory is taken for a frame that has not arrived whole.
    If it refuses, the reader is `held`: the shell stops reading, and `retry` asks again.
    """

    __slots__ = ("_admit", "_arena", "_filled", "_frame", "_max_bytes", "_pool", "_start")

    def __init__(
        self, arena: ReceiveArena, pool: BufferPool, max_bytes: int, admit: Callable[[int], bool]
    ) -> None:
        self._arena = arena
        self._pool = pool
        self._max_bytes = max_bytes
        self._admit = admit
        self._start = b""
        self._frame: memoryview | None = None
        self._filled = 0

    @property
    def held(self) -> bool:
        """Whether a frame waits for memory."""
        return len(self._start) >= LENGTH_BYTES

    @property
    def mid_frame(self) -> bool:
        """Whether part of a frame has arrived."""
        return self._frame is not None or bool(self._start)

    def get_buffer(self) -> memoryview:
        """Where the next read goes."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._arena.free()

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole after `count` bytes have been read into `get_buffer()`.

        A frame is valid for as long as the caller, or a view of it, lives. MalformedFrame ends it.
        """
        if self._frame is not None:
            self._filled += count
            if self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                yield frame
            return
        data = self._arena.take(count)
        if self._start:
            data = memoryview(self._start + data)
            self._start = b""
        yield from self._cut(data)

    def retry(self) -> None:
        """Ask again for the memory of the frame that was held."""
        data, self._start = memoryview(self._start), b""
        self._begin(self._length(data, 0), data[LENGTH_BYTES:])

    def close(self) -> None:
        """Let go of a frame that has not arrived whole: nothing more will be read."""
        self._frame = None
        self._start = b""

    def _cut(self, data: memoryview) -> Iterator[memoryview]:
        at, end = 0, len(data)
        while end - at >= LENGTH_BYTES:
            size = self._length(data, at)
            stop = at + LENGTH_BYTES + size
            if stop > end:
                self._begin(size, data[at + LENGTH_BYTES :])
                return
            yield data[at + LENGTH_BYTES : stop]
            at = stop
        self._start = bytes(data[at:])

    def _length(self, data: memoryview, at: int) -> int:
        (size,) = _LENGTH.unpack_from(data, at)
        if size < FRAME_LEAST_BYTES:
            raise MalformedFrame(f"a frame of {size} bytes is too short for a request")
        if size > self._max_bytes:
            raise MalformedFrame(f"a frame of {size} bytes exceeds {self._max_bytes}")
        return int(size)

    def _begin(self, size: int, data: memoryview) -> None:
        """Give a frame of which `data` has arrived a buffer of its own."""
        if not self._admit(size):
            self._start = _LENGTH.pack(size) + data
            return
        # The view marks the pool's buffer as lent while the frame is being filled.
        self._frame = self._pool.take(size)[:size]
        self._filled = len(data)
        self._frame[: self._filled] = data
