"""A process that stays warm between measurements."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

from tests.integration.harness.process_tree import descendants

from bench.errors import MeasurementFailed
from bench.paths import ROOT

START_TIMEOUT_S = 300.0
ROUND_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 4_000

S = TypeVar("S", bound="Session")


class Session:
    """`python -m <module> <arguments>`, which answers each line of JSON with one. Its log is a
    file. Use it as a context: it ends, with all its children, when that is left."""

    def __init__(self, module: str, arguments: list[str], log_file: Path) -> None:
        self._log_file = log_file
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def ask(self, question: dict[str, Any], timeout_s: float = ROUND_TIMEOUT_S) -> dict[str, Any]:
        """Its answer; MeasurementFailed if that is an error, or none in time."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise MeasurementFailed(f"the session is gone: {self._log_tail()}") from error
        return self.answer(timeout_s)

    def answer(self, timeout_s: float = START_TIMEOUT_S) -> dict[str, Any]:
        """The next answer: the first one says that the session is up."""
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], timeout_s)[0]:
            raise MeasurementFailed(f"no answer from the session within {timeout_s:.0f} s")
        line = output.readline()
        if not line:
            raise MeasurementFailed(f"the session ended: {self._log_tail()}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise MeasurementFailed(told["error"])
        return told

    def close(self) -> None:
        """Let it end, or kill it; none of its processes is left."""
        children = descendants(self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            children = descendants(self._process.pid)
            self._process.kill()
            self._process.wait(KILL_TIMEOUT_S)
        finally:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.stdout.close()

    def _log_tail(self) -> str:
        with self._log_file.open("rb") as log:
            size_bytes = log.seek(0, os.SEEK_END)
            log.seek(max(0, size_bytes - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")
