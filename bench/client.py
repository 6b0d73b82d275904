"""Runs the C client, one process per measurement, and reads its line of JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bench.errors import MeasurementFailed

TIMEOUT_MARGIN_S = 30
CLIENT_TIMEOUT_MS = 60_000
"""How long the client itself waits for answers before it gives up."""

Option = int | str


class Client:
    """The client against one broker."""

    def __init__(self, program: Path, bootstrap: str) -> None:
        self._program = program
        self._bootstrap = bootstrap

    def command(self, mode: str, **options: Option) -> list[str]:
        """The command line of one measurement."""
        settings = {"bootstrap": self._bootstrap, "timeout_ms": CLIENT_TIMEOUT_MS, **options}
        return [str(self._program), mode, *(f"{name}={value}" for name, value in settings.items())]

    def run(self, mode: str, **options: Option) -> dict[str, Any]:
        """What it measured; MeasurementFailed when it ends otherwise or hangs."""
        return read_answer(self.start(mode, **options), _timeout_s(options))

    def start(self, mode: str, **options: Option) -> subprocess.Popen[str]:
        """Start it without waiting."""
        return subprocess.Popen(
            self.command(mode, **options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def read_answer(
    process: subprocess.Popen[str], timeout_s: float = CLIENT_TIMEOUT_MS / 1000 + TIMEOUT_MARGIN_S
) -> dict[str, Any]:
    """Wait for a started client and read what it measured."""
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as late:
        process.kill()
        process.communicate()
        raise MeasurementFailed(f"the client did not end within {timeout_s:.0f} s") from late
    except BaseException:
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        raise MeasurementFailed(errors.strip() or f"the client ended with {process.returncode}")
    answer: dict[str, Any] = json.loads(output)
    return answer


def _timeout_s(options: dict[str, Option]) -> float:
    """Longer than the client can take by its own limits."""
    run_ms = int(options.get("duration_ms", 0)) + int(options.get("warmup_ms", 0))
    waits_ms = 2 * int(options.get("timeout_ms", CLIENT_TIMEOUT_MS))
    return (run_ms + waits_ms) / 1000 + TIMEOUT_MARGIN_S
