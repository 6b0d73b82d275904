"""Commands that run once, each in a new process."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from typing import Any

from bench.errors import MeasurementFailed
from bench.paths import ROOT


def run(command: list[str]) -> dict[str, Any]:
    """Wall clock and CPU time of a command from its start to its end, and what it printed.
    MeasurementFailed if it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        try:
            # Waits without polling; the CPU time is that of the process that has just ended.
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text = output.read().decode()
        if process.returncode:
            said = errors.read().decode(errors="replace").strip()
            raise MeasurementFailed(f"{command[0]} ended with {process.returncode}: {said}")
    return {"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "text": text}
