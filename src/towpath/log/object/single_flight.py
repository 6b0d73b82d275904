"""Work that several may want at once and that is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Flight(Generic[V]):
    """Work under way and how many wait for it."""

    __slots__ = ("task", "waiters")

    def __init__(self, task: asyncio.Task[V]) -> None:
        self.task = task
        self.waiters = 0


class SingleFlight(Generic[K, V]):
    """Work by key. It goes on as long as somebody waits for it; its failure is everybody's."""

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[V]] = {}

    async def run(self, key: K, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """What the work gives; who asks for the same key meanwhile waits for the same work."""
        flight = self._flights.get(key)
        if flight is None:
            flight = _Flight(asyncio.ensure_future(work()))
            self._flights[key] = flight
        flight.waiters += 1
        try:
            # A caller that is cancelled leaves; the others still wait.
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters:
                if self._flights.get(key) is flight:
                    del self._flights[key]
                flight.task.cancel()
