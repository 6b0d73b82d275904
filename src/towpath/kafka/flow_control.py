"""How many bytes of requests may be in work, over all connections of a process."""

from __future__ import annotations

from collections.abc import Callable

REQUEST_OVERHEAD_BYTES = 1024
"""Added to each request's size, so that very many tiny requests count for what they cost."""


class InflightBytes:
    """Counts the bytes in work and wakes the connections that wait for room.

    It is full when the limit is reached; a single request larger than the limit is still let in
    when nothing else is in work.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def full(self) -> bool:
        """Whether reading should pause."""
        return self.bytes >= self.limit_bytes

    def add(self, size_bytes: int) -> None:
        """Count a request that arrived."""
        self.bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """Count a request that is done; wakes those who wait, first come first served."""
        self.bytes -= size_bytes
        while self._waiting and not self.full:
            wake = next(iter(self._waiting))
            del self._waiting[wake]
            wake()

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when there is room. Asking twice is asking once."""
        self._waiting[wake] = None

    def stop_waiting(self, wake: Callable[[], None]) -> None:
        """Forget a waiter, if it is one."""
        self._waiting.pop(wake, None)
