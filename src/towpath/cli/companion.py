"""The compactor that `towpath up` runs beside its brokers, in a process of its own.

Kafka serves with or without it: when it cannot be kept running, one line says so.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.child import Child, GivenUp, towpath_command
from towpath.cli.errors import complain

if TYPE_CHECKING:
    from towpath.config import Settings

STOP_SECONDS = 10.0
"""How long the compactor may take to stop before it is killed; the next one goes on for it."""


class Companion:
    """The compactor's process, or nothing if the settings make no tables."""

    def __init__(self, settings: Settings, config: Path | None, assignments: Sequence[str]) -> None:
        self._child: Child | None = None
        self._life: asyncio.Task[None] | None = None
        if not settings.iceberg_enabled:
            return
        reason = _why_not(settings)
        if reason is None:
            command = towpath_command(["compactor"], config, assignments)
            self._child = Child("compactor", command)
        else:
            complain(f"topics do not become tables: {reason}")

    @property
    def makes_tables(self) -> bool:
        """Whether there is a compactor to start."""
        return self._child is not None

    def start(self) -> None:
        """Start it once the brokers serve; does not wait for it."""
        if self._child is not None:
            self._life = asyncio.create_task(self._keep_running(self._child))

    async def stop(self) -> None:
        """Stop it, or kill it."""
        if self._child is None or self._life is None:
            return
        self._child.stop()
        _, late = await asyncio.wait({self._life}, timeout=STOP_SECONDS)
        if late:
            self._child.signal(signal.SIGKILL)
            self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)

    async def _keep_running(self, child: Child) -> None:
        try:
            await child.keep_running()
        except GivenUp as error:
            complain(f"topics do not become tables any more: {error}; Kafka goes on serving")


def _why_not(settings: Settings) -> str | None:
    from towpath.lakehouse.possible import why_no_tables

    return why_no_tables(settings)
