"""How long to leave something alone that failed: longer each time, up to a limit."""

from __future__ import annotations

from towpath.runtime import Runtime

FIRST_PAUSE_MS = 1_000
PAUSE_MAX_MS = 30_000


class Pauses:
    """Pauses by number, with some jitter so that what failed together is not tried together."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._until_ms: dict[int, tuple[int, int]] = {}
        """When the pause ends, and how long the next one will be."""

    def paused(self, number: int) -> bool:
        """Whether it is too early to try again."""
        found = self._until_ms.get(number)
        return found is not None and self._runtime.clock.monotonic_ms() < found[0]

    def failed(self, number: int) -> None:
        """Wait longer than after the last failure. Failures during a pause count once."""
        if self.paused(number):
            return
        _, pause_ms = self._until_ms.get(number, (0, FIRST_PAUSE_MS))
        jittered_ms = int(pause_ms * (0.5 + self._runtime.random.random()))
        until_ms = self._runtime.clock.monotonic_ms() + jittered_ms
        self._until_ms[number] = (until_ms, min(2 * pause_ms, PAUSE_MAX_MS))

    def succeeded(self, number: int) -> None:
        """Forget the failures."""
        self._until_ms.pop(number, None)
