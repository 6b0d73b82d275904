"""Wall clocks that are wrong and jump, over the loop's virtual time."""

from __future__ import annotations

from tests.faults.simulation.loop import SimLoop

EPOCH_MS = 1_790_000_000_000
"""What the wall clock of the world shows at virtual time 0."""


class SimClock:
    """A node's clock. The monotonic clock is the virtual time itself: all share one machine."""

    def __init__(self, loop: SimLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms
        """How far the wall clock is ahead of the world's."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as this node believes."""
        return EPOCH_MS + self.monotonic_ms() + self.skew_ms

    def monotonic_ms(self) -> int:
        """Virtual milliseconds."""
        return int(self._loop.time() * 1000)

    def jump(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self.skew_ms += by_ms
