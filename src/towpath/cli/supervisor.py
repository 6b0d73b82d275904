"""Runs N broker processes: one log stream, restarts with back-off, and one clean stop for all."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli import banner
from towpath.cli.child import Child, GivenUp, towpath_command
from towpath.cli.companion import Companion
from towpath.cli.errors import CliError
from towpath.cli.serve import SIGNAL_EXIT_BASE

if TYPE_CHECKING:
    from towpath.config import Settings

STOP_MARGIN_MS = 2_000
"""How much longer than its own time-out a broker gets before it is killed."""


def run(settings: Settings, config: Path | None, assignments: list[str]) -> int:
    """Run the brokers until a signal; the exit code."""
    return asyncio.run(_Supervisor(settings, config, assignments).run())


class _Supervisor:
    def __init__(self, settings: Settings, config: Path | None, assignments: list[str]) -> None:
        self._settings = settings
        self._config = config
        self._asked = asyncio.Event()
        self._children = [
            Child(
                f"broker {settings.broker_id(i)}",
                towpath_command(["broker", "--index", str(i)], config, assignments),
            )
            for i in range(settings.brokers)
        ]
        self._companion = Companion(settings, config, assignments)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)
        lives = [asyncio.create_task(child.keep_running()) for child in self._children]
        announcing = asyncio.create_task(self._announce())
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait({*lives, asked}, return_when=asyncio.FIRST_COMPLETED)
        for task in (announcing, asked):
            task.cancel()
        await asyncio.gather(announcing, asked, return_exceptions=True)
        failure = next((life.exception() for life in lives if life.done()), None)
        await self._stop(lives)
        if failure is not None and not isinstance(failure, GivenUp):
            raise failure
        if failure is not None:
            raise CliError(str(failure))
        return 0

    async def _announce(self) -> None:
        for child in self._children:
            await child.ready.wait()
        addresses = tuple(child.kafka for child in self._children)
        http, tables = self._children[0].http, self._companion.makes_tables
        banner.show(banner.ready(self._settings, self._config, addresses, http, tables=tables))
        self._companion.start()

    async def _stop(self, lives: list[asyncio.Task[None]]) -> None:
        """Stop every child; laggards are killed."""
        await self._companion.stop()
        for child in self._children:
            child.stop()
        timeout_ms = self._settings.shutdown_timeout_ms + STOP_MARGIN_MS
        _, late = await asyncio.wait(lives, timeout=timeout_ms / 1000)
        for child in self._children:
            child.signal(signal.SIGKILL)
        for life in late:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._asked.is_set():
            for child in self._children:
                child.signal(signal.SIGKILL)
            os._exit(SIGNAL_EXIT_BASE + number)
        self._asked.set()
