"""The metadata that outlives all brokers: a `MemoryState` whose every write the ledger follows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context

from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.ledger import Ledger
from tests.faults.simulation.loop import SimLoop

from towpath.metadata.memory_state import MemoryState


class SharedState(MemoryState):
    """Its timers belong to the world: a paused broker cannot keep its own session alive."""

    def __init__(self, loop: SimLoop, clock: SimClock, ledger: Ledger) -> None:
        super().__init__(clock)
        self._loop = loop
        self._ledger = ledger
        self._world = Context()
        self.sent_s = 0.0
        """When the write that is being made was sent."""

    def write(
        self,
        puts: Sequence[tuple[str, bytes]],
        deletes: Sequence[str],
        session_id: int | None = None,
    ) -> int:
        """As the parent's, and the ledger sees it."""
        present = [key for key in deletes if self.version_of(key) is not None]
        revision = super().write(puts, deletes, session_id)
        self._ledger.wrote(puts, present, revision)
        return revision

    @property
    def session_ids(self) -> list[int]:
        """The sessions that are alive."""
        return list(self._leases)

    def keys_under(self, prefix: str) -> list[str]:
        """Every key that starts with `prefix`."""
        return [key for key in self._order if key.startswith(prefix)]

    def _expire_later(self, session_id: int, delay_ms: int) -> asyncio.TimerHandle:
        return self._loop.call_later(
            (delay_ms + 1) / 1000, self._expiry_due, session_id, context=self._world
        )
