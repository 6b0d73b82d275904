"""Where received bytes go: one arena shared by all connections, and recycled large buffers.

The event loop asks for a buffer right before it reads and reports the bytes right after, so that
all connections of a process can read into the same arena, and an idle connection holds no buffer.
Requests are views of these buffers. Whoever holds a view keeps its buffer from being used again:
the buffer is asked (a bytearray with views refuses to be resized), nothing is counted by hand.
"""

from __future__ import annotations

from collections import deque

ARENA_BYTES = 262_144
"""The most that one read takes."""
ARENA_LEAST_FREE_BYTES = 65_536
"""An arena with less room than this is left for the next one."""
POOLED_FROM_BYTES = 65_536
"""Buffers below this size are cheap to make and are not kept."""
POOL_MAX_BYTES = 16_777_216
"""The most that is kept for reuse; what is lent beyond it is left to the garbage collector."""
PROBES_MAX = 4
"""How many lent buffers are asked whether they are free before a new one is made."""


def has_no_views(buffer: bytearray) -> bool:
    """Whether no memoryview of `buffer` is alive."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


class BufferPool:
    """Lends buffers and finds out by itself when they have come back."""

    def __init__(self, max_bytes: int = POOL_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept_bytes = 0
        self._lent: dict[int, deque[bytearray]] = {}

    @property
    def kept_bytes(self) -> int:
        """The size of all buffers that may be lent again."""
        return self._kept_bytes

    def take(self, size_bytes: int) -> memoryview:
        """A view of a buffer of at least `size_bytes`, which is lent until all views are gone."""
        if size_bytes < POOLED_FROM_BYTES:
            return memoryview(bytearray(size_bytes))
        capacity = 1 << (size_bytes - 1).bit_length()
        lent = self._lent.setdefault(capacity, deque())
        for _ in range(min(PROBES_MAX, len(lent))):
            lent.rotate(-1)
            if has_no_views(lent[-1]):
                return memoryview(lent[-1])
        buffer = bytearray(capacity)
        self._keep(buffer)
        return memoryview(buffer)

    def _keep(self, buffer: bytearray) -> None:
        capacity = len(buffer)
        if capacity > self._max_bytes:
            return
        while self._kept_bytes + capacity > self._max_bytes:
            self._forget_largest()
        self._lent[capacity].append(buffer)
        self._kept_bytes += capacity

    def _forget_largest(self) -> None:
        largest = max(size for size, buffers in self._lent.items() if buffers)
        self._lent[largest].popleft()
        self._kept_bytes -= largest


class ReceiveArena:
    """The buffer that the next read of any connection goes to."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._at = 0
        self._view = pool.take(ARENA_BYTES)

    def free(self) -> memoryview:
        """Room for one read. It is only valid until the next call of any method."""
        if ARENA_BYTES - self._at < ARENA_LEAST_FREE_BYTES:
            self._replace()
        return self._view[self._at :]

    def take(self, size_bytes: int) -> memoryview:
        """The first `size_bytes` of what `free` gave, now the caller's for as long as it lives."""
        start = self._at
        self._at += size_bytes
        return self._view[start : self._at]

    def _replace(self) -> None:
        """Start again in the same buffer if nobody holds a view of it, else in another one."""
        buffer = self._view.obj
        assert isinstance(buffer, bytearray)
        self._view.release()
        self._view = memoryview(buffer) if has_no_views(buffer) else self._pool.take(ARENA_BYTES)
        self._at = 0
