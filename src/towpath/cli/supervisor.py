"""Runs N broker processes: one log stream, restarts with back-off, and one clean stop for all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli import banner
from towpath.cli.errors import USAGE, CliError, complain, say
from towpath.cli.serve import SIGNAL_EXIT_BASE

if TYPE_CHECKING:
    from towpath.config import Settings

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MAX_SECONDS = 15.0
RESTARTS_MAX = 8
"""Failures in a row after which the cluster is given up."""

STEADY_SECONDS = 60.0
"""A broker that ran this long has its failures forgotten."""

STOP_MARGIN_MS = 2_000
"""How much longer than its own time-out a broker gets before it is killed."""

LINE_MAX_BYTES = 65_536


class GivenUp(Exception):
    """A broker cannot be kept running."""


class Child:
    """One broker process and its restarts."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.ready = asyncio.Event()
        self.kafka: banner.Address = ("", 0)
        self.http: banner.Address = ("", 0)
        self._command = command
        self._process: Process | None = None
        self._stopping = asyncio.Event()

    async def keep_running(self) -> None:
        """Start and restart until `stop`; raises GivenUp."""
        failures = 0
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            if not self.ready.is_set() or code == USAGE:
                raise GivenUp(f"{self.name} did not start (exit code {code})")
            failures = 1 if loop.time() - started >= STEADY_SECONDS else failures + 1
            if failures > RESTARTS_MAX:
                raise GivenUp(f"{self.name} failed {failures} times in a row")
            delay = min(BACKOFF_FIRST_SECONDS * 2 ** (failures - 1), BACKOFF_MAX_SECONDS)
            complain(f"{self.name} ended (exit code {code}), restart in {delay:g} s")
            await self._pause(delay)

    async def _pause(self, seconds: float) -> None:
        """Sleep, but wake up at once when a stop is asked for."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _run_once(self) -> int:
        """One life of the process: its exit code. Own session: Ctrl-C reaches us alone."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_MAX_BYTES,
            start_new_session=True,
        )
        self._process = process
        if self._stopping.is_set():
            self.signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(self._read_ready(process.stdout), self._relay(process.stderr))
        return await process.wait()

    async def _read_ready(self, stream: asyncio.StreamReader) -> None:
        while line := await _read_line(stream):
            try:
                told = json.loads(line)
                kafka, http = told["kafka"], told["http"]
            except (ValueError, LookupError, TypeError):
                self._print(line)
                continue
            self.kafka, self.http = (kafka[0], kafka[1]), (http[0], http[1])
            self.ready.set()

    async def _relay(self, stream: asyncio.StreamReader) -> None:
        while line := await _read_line(stream):
            self._print(line)

    def _print(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        say(f"[{self.name}] {text}")

    def signal(self, number: signal.Signals) -> None:
        """Pass a signal on, if the process lives."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Ask for a clean stop; no restart follows."""
        self._stopping.set()
        self.signal(signal.SIGTERM)


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """The next line, or the next piece of an overlong one; empty at the end."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        return await stream.readexactly(max(overrun.consumed, 1))


def run(settings: Settings, config: Path | None, assignments: list[str]) -> int:
    """Run the brokers until a signal; the exit code."""
    return asyncio.run(_Supervisor(settings, config, assignments).run())


class _Supervisor:
    def __init__(self, settings: Settings, config: Path | None, assignments: list[str]) -> None:
        self._settings = settings
        self._asked = asyncio.Event()
        self._children = [
            Child(f"broker {settings.broker_id(i)}", _command(config, assignments, i))
            for i in range(settings.brokers)
        ]

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
        banner.show(banner.Ready(addresses, self._children[0].http, self._settings.data_dir))

    async def _stop(self, lives: list[asyncio.Task[None]]) -> None:
        """Stop every child; laggards are killed."""
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


def _command(config: Path | None, assignments: list[str], index: int) -> list[str]:
    """The command line of broker `index`, with the same settings as ours."""
    command = [sys.executable, "-m", "towpath", "broker", "--index", str(index), "--supervised"]
    if config is not None:
        command += ["--config", str(config)]
    for assignment in assignments:
        command += ["--set", assignment]
    return command
