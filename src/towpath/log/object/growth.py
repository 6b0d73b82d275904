"""Who waits for which stream to grow: fetch long polls, woken by the metadata watch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from towpath.log.interface import GrowthWatch

MAX_SEEN_ENDS = 200_000
"""How many streams' latest ends are remembered, for waiters that register a moment late."""


class _Registration(GrowthWatch):
    """One waiter and the ends it knows."""

    __slots__ = ("_growth", "known_ends", "wake")

    def __init__(self, growth: Growth, known_ends: dict[int, int], wake: asyncio.Event) -> None:
        self._growth = growth
        self.known_ends = known_ends
        self.wake = wake

    def cancel(self) -> None:
        self._growth.forget(self)


class Growth:
    """The waiters of one broker. Costs nothing for streams that nobody waits for."""

    def __init__(self) -> None:
        # Dictionaries instead of sets: who registered first is woken first, in every run.
        self._by_stream: dict[int, dict[_Registration, None]] = {}
        self._seen_ends: dict[int, int] = {}

    def register(self, positions: Sequence[tuple[int, int]], wake: asyncio.Event) -> _Registration:
        """Wake `wake` when one of the streams grows past its position."""
        registration = _Registration(self, dict(positions), wake)
        for stream_id in registration.known_ends:
            self._by_stream.setdefault(stream_id, {})[registration] = None
        if any(self._seen_ends.get(stream_id, 0) > end for stream_id, end in positions):
            wake.set()
        return registration

    def forget(self, registration: _Registration) -> None:
        """The inverse of `register`; may be called twice."""
        for stream_id in registration.known_ends:
            waiting = self._by_stream.get(stream_id)
            if waiting is not None:
                waiting.pop(registration, None)
                if not waiting:
                    del self._by_stream[stream_id]

    def grew(self, stream_id: int, offset_end: int) -> None:
        """A stream's tail is at least `offset_end` now."""
        if offset_end > self._seen_ends.get(stream_id, 0):
            self._seen_ends[stream_id] = offset_end
            if len(self._seen_ends) > MAX_SEEN_ENDS:
                del self._seen_ends[next(iter(self._seen_ends))]
        waiting = self._by_stream.get(stream_id)
        if waiting is not None:
            for registration in waiting:
                if registration.known_ends[stream_id] < offset_end:
                    registration.wake.set()

    def wake_all(self) -> None:
        """The feed had a gap: everybody must look again."""
        for waiting in self._by_stream.values():
            for registration in waiting:
                registration.wake.set()
