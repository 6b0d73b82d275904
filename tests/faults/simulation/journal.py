"""What happened in a run: one line per event, in order, and what was found wrong.

The digest of the lines is what must be the same for the same seed in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from tests.faults.simulation.loop import START_S, SimLoop

KEPT_LINES = 200_000
"""Lines kept for printing; the digest covers all of them."""


class Journal:
    """The log of one run."""

    def __init__(self, loop: SimLoop, echo: Callable[[str], None] | None = None) -> None:
        self._loop = loop
        self._echo = echo
        self._digest = hashlib.sha256()
        self.line_count = 0
        self.failures: list[str] = []

    @property
    def verbose(self) -> bool:
        """Whether the lines are printed."""
        return self._echo is not None

    def mute(self) -> None:
        """Print no more: the run is over, and what follows is clearing up."""
        self._echo = None

    def note(self, text: str) -> None:
        """Something happened."""
        line = f"{self._loop.time() - START_S:10.6f} {text}"
        self._digest.update(line.encode())
        self.line_count += 1
        if self._echo is not None and self.line_count <= KEPT_LINES:
            self._echo(line)

    def fail(self, text: str) -> None:
        """A promise was broken: the run ends here."""
        self.note(f"FAILED {text}")
        self.failures.append(f"at {self._loop.time() - START_S:.6f} s: {text}")
        self._loop.halted = True

    def expect(self, holds: bool, text: str) -> None:
        """Fail unless it holds."""
        if not holds:
            self.fail(text)

    @property
    def digest(self) -> str:
        """The digest of all lines so far."""
        return self._digest.hexdigest()
