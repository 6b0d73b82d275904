"""Time-outs of many waits that nearly all end in time, for next to nothing each.

A timer of the event loop per request would cost more than the request's place in the log. Waits
with the same time-out expire in the order in which they began, so that one timer for the oldest of
them is enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

COMPACT_FROM_WAITS = 1_000


class Wait(Protocol):
    """Something that ends by itself or expires."""

    is_finished: bool

    def expire(self) -> None:
        """Its time is over; not called once it is finished."""
        ...


class Deadlines:
    """The waits of one event loop by their time-out."""

    def __init__(self) -> None:
        self._queues: dict[float, _Queue] = {}
        self._compact_at = COMPACT_FROM_WAITS

    def add(self, wait: Wait, timeout_s: float) -> None:
        """Let the wait expire after `timeout_s` from now."""
        queue = self._queues.get(timeout_s)
        if queue is None:
            queue = self._queues[timeout_s] = _Queue(timeout_s)
        queue.add(wait)
        if len(self._queues) > self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Clients choose time-outs: those that nobody waits for any more must not pile up."""
        self._queues = {key: queue for key, queue in self._queues.items() if not queue.retire()}
        self._compact_at = max(COMPACT_FROM_WAITS, 2 * len(self._queues))


class _Queue:
    """Waits with one time-out, oldest first; those at the head that are finished are dropped."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waits: deque[tuple[float, Wait]] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._compact_at = COMPACT_FROM_WAITS

    def retire(self) -> bool:
        """Whether nobody waits here any more; the timer is gone then."""
        self._drop_finished()
        if self._waits:
            return False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return True

    def _drop_finished(self) -> None:
        while self._waits and self._waits[0][1].is_finished:
            self._waits.popleft()

    def add(self, wait: Wait) -> None:
        self._drop_finished()
        waits = self._waits
        deadline = self._loop.time() + self._timeout_s
        waits.append((deadline, wait))
        if len(waits) > self._compact_at:
            self._compact()
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _compact(self) -> None:
        """One that does not end must not hold all that finish behind it."""
        self._waits = deque(item for item in self._waits if not item[1].is_finished)
        self._compact_at = max(COMPACT_FROM_WAITS, 2 * len(self._waits))

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._waits:
            deadline, wait = self._waits[0]
            if not wait.is_finished and deadline > now:
                self._timer = self._loop.call_at(deadline, self._on_timer)
                return
            self._waits.popleft()
            if not wait.is_finished:
                wait.expire()
