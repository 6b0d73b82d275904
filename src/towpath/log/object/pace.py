"""How often flushes may start: natural batching up to a rate, then they wait for company."""

from __future__ import annotations

BURST_OBJECTS = 30
"""How many flushes may start at once after a quiet time."""


class Pace:
    """A token bucket on the event loop's clock. One WAL object costs one token."""

    def __init__(self, objects_per_second: int, now: float) -> None:
        self._rate = float(objects_per_second)
        self._tokens = float(BURST_OBJECTS)
        self._at = now

    def delay(self, now: float) -> float:
        """Seconds until a flush may start; 0 if it may start now."""
        self._refill(now)
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) / self._rate

    def spend(self, now: float) -> None:
        """A flush starts. A full object may start without a token: it cannot grow any more."""
        self._refill(now)
        self._tokens = max(0.0, self._tokens - 1.0)

    def _refill(self, now: float) -> None:
        self._tokens = min(float(BURST_OBJECTS), self._tokens + (now - self._at) * self._rate)
        self._at = now
