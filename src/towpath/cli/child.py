"""A child process that is kept running: its lines relayed, restarts with back-off, a clean stop."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli import banner
from towpath.cli.errors import USAGE, complain, say

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MAX_SECONDS = 15.0
RESTARTS_MAX = 8
"""Failures in a row after which the process is given up."""

STEADY_SECONDS = 60.0
"""A process that ran this long has its failures forgotten."""

LINE_MAX_BYTES = 65_536


class GivenUp(Exception):
    """The process cannot be kept running."""


class Child:
    """One process and its restarts. It tells on stdout, in a line of JSON, that it is ready."""

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
                is_ready = told["ready"] is True
                kafka, http = told.get("kafka", self.kafka), told.get("http", self.http)
                addresses = (kafka[0], kafka[1]), (http[0], http[1])
            except (ValueError, LookupError, TypeError, AttributeError):
                is_ready = False
            if not is_ready:
                self._print(line)
                continue
            self.kafka, self.http = addresses
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


def towpath_command(
    arguments: Sequence[str], config: Path | None, assignments: Sequence[str]
) -> list[str]:
    """The command line of a process with the same settings as ours."""
    command = [sys.executable, "-m", "towpath", *arguments, "--supervised"]
    if config is not None:
        command += ["--config", str(config)]
    for assignment in assignments:
        command += ["--set", assignment]
    return command
