"""The timers of one group at the broker that holds its lease.

Time is this broker's own: a timer runs from when this broker first saw a state that has it, or from
when it took the lease. Nothing of it is stored, so a new holder gives everybody the full time
again, as Kafka's coordinator does when it loads a group.
"""

from __future__ import annotations

from collections.abc import Sequence

from towpath.groups.seen import Seen
from towpath.groups.step import Timer

LATE_MS = 1_000
"""A timer that is noticed so much too late tells that this broker slept, and could hear nobody."""


class Timers:
    """What is due when."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._timers: Sequence[Timer] = ()
        self._started_ms: dict[str, int] = {}

    @property
    def any(self) -> bool:
        """Whether anything will ever be due."""
        return bool(self._timers)

    def update(self, timers: Sequence[Timer], now_ms: int) -> None:
        """The group's state has these timers now."""
        started = self._started_ms
        self._started_ms = {timer.name: started.get(timer.name, now_ms) for timer in timers}
        self._timers = timers

    def restart(self, now_ms: int) -> None:
        """The lease was taken: everything runs from now on."""
        self._started_ms = dict.fromkeys(self._started_ms, now_ms)

    def forgive(self, slept_ms: int, now_ms: int) -> None:
        """This broker slept: nobody could do in this time what the timers wait for."""
        for name, started_ms in self._started_ms.items():
            self._started_ms[name] = min(now_ms, started_ms + slept_ms)
        self._seen.forgive(slept_ms, now_ms)

    def next_ms(self, now_ms: int) -> int | None:
        """When the first timer is due; None if there is none."""
        return min((self._due_ms(timer, now_ms) for timer in self._timers), default=None)

    def due(self, now_ms: int) -> list[Timer]:
        """The timers that are due."""
        return [timer for timer in self._timers if self._due_ms(timer, now_ms) <= now_ms]

    def is_due(self, timer: Timer, now_ms: int) -> bool:
        """Whether the group's state still has this timer, and it is due."""
        return timer.name in self._started_ms and self._due_ms(timer, now_ms) <= now_ms

    def ran(self, timers: Sequence[Timer], now_ms: int) -> None:
        """The steps of these timers were run: those that the state still has start again."""
        for timer in timers:
            if timer.name in self._started_ms:
                self._started_ms[timer.name] = now_ms

    def _due_ms(self, timer: Timer, now_ms: int) -> int:
        since_ms = self._started_ms[timer.name]
        if timer.member_id is not None:
            since_ms = max(since_ms, self._seen.last_ms(timer.member_id, now_ms) or since_ms)
        return since_ms + timer.after_ms
