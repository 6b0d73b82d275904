"""A server started as a process of its own, with its output in a file."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import answers_api_versions

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOG_TAIL_BYTES = 16_384


class ServerDied(AssertionError):
    """The server ended before it was ready; the message has the tail of its output."""


class ServerProcess:
    """One command and its children, which this object ends."""

    def __init__(
        self, command: list[str], log_file: Path, env: dict[str, str], ports: list[int]
    ) -> None:
        self.command = command
        self.log_file = log_file
        self.ports = ports
        """Every Kafka port that must answer before the server counts as ready."""
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the process that was started (not of its children)."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Start and wait until every port answers ApiVersions."""
        self.spawn()
        wait_until(self._is_ready, f"{self.command} ready", timeout_s=START_TIMEOUT_S)

    def spawn(self) -> None:
        """Start without waiting."""
        assert self._process is None or self._process.poll() is not None, "already running"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._env},
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        if (code := self.exit_code()) is not None:
            raise ServerDied(f"{self.command} ended with {code}:\n{self.log_tail()}")
        return all(answers_api_versions("127.0.0.1", port) for port in self.ports)

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the end; the exit code. Raises subprocess.TimeoutExpired."""
        assert self._process is not None, "not started"
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """End it with SIGTERM and wait; the exit code. One that does not end is killed, and that
        is a failure."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL the process and all its children, and wait until it is gone."""
        if self._process is None:
            return
        for pid in [self.pid, *self.descendants()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait(STOP_TIMEOUT_S)

    def descendants(self) -> list[int]:
        """The ids of all children, and theirs, that live now; none when the process has ended."""
        parents = _parents()
        found = [] if self.exit_code() is not None else [self.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found[1:]

    def log_tail(self, since: int = 0) -> str:
        """The end of what the server wrote after byte `since` of its log file."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(since, size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")

    def log_size_bytes(self) -> int:
        """How much the server has written so far."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0


def _parents() -> dict[int, int]:
    """Every process of this machine and its parent."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    return parents
