"""Compactors as processes that start quickly and can be struck.

They are forked from a process that has the libraries loaded already, which saves some seconds each;
apart from that they run the command line `towpath compactor` as anybody does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from tests.faults.processes.pair import holds_lock
from tests.faults.processes.saga_spark import PYTHON_PATH, is_stopped
from tests.integration.harness.waiting import wait_until

LOADED = (
    "towpath.cli.main",
    "towpath.compactor",
    "towpath.lakehouse.iceberg.open",
    "towpath.lakehouse.runners.open",
    "pyspark.sql.connect.session",
    "pyarrow.parquet",
)
"""What the process has loaded from which compactors are forked."""
STRIKE_TIMEOUT_S = 120.0
END_TIMEOUT_S = 60.0


class Compactors:
    """Starts compactors of one data directory, and ends those that are left."""

    def __init__(self, data_dir: Path, log_file: Path, settings: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._log_file = log_file
        self._variables = as_variables(settings)
        self._context = _loaded_context()
        self._started: list[CompactorProcess] = []

    def start(self, *arguments: str, settings: Mapping[str, str]) -> CompactorProcess:
        """A compactor with further arguments and settings."""
        variables = {**self._variables, **as_variables(settings)}
        command = ["compactor", "--data-dir", str(self._data_dir), *arguments]
        process = self._context.Process(
            target=run_command, args=(command, variables, self._log_file)
        )
        process.start()
        started = CompactorProcess(process, self._data_dir / "metadata.sqlite-lock")
        self._started.append(started)
        return started

    def end(self) -> None:
        """Kill those that still run."""
        for compactor in self._started:
            compactor.kill()
        self._started.clear()

    def log(self) -> str:
        """What all of them said last."""
        if not self._log_file.exists():
            return ""
        return self._log_file.read_text(errors="replace")[-32_768:]


class CompactorProcess:
    """One compactor."""

    def __init__(self, process: ForkServerProcess, metadata_lock: Path) -> None:
        self._process = process
        self._metadata_lock = metadata_lock

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def wait_struck(self, action: str) -> bool:
        """Wait until its fault point has killed or stopped it. False if it was stopped in the
        middle of a metadata write (of its session, say) and keeps everybody's lock."""
        if action == "kill":
            assert self.wait(STRIKE_TIMEOUT_S) == -signal.SIGKILL
            return True
        wait_until(self._is_stopped, "stopped by its fault point", timeout_s=STRIKE_TIMEOUT_S)
        return not holds_lock(self.pid, self._metadata_lock)

    def _is_stopped(self) -> bool:
        assert self._process.exitcode is None, f"it has ended with {self._process.exitcode}"
        return is_stopped(self.pid)

    def resume(self) -> None:
        """Let it go on after it was stopped."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it as users do; it must end well."""
        os.kill(self.pid, signal.SIGTERM)
        assert self.wait() == 0

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        self._process.join(timeout_s)
        code = self._process.exitcode
        assert code is not None, f"it has not ended within {timeout_s} s"
        return code

    def kill(self) -> None:
        """SIGKILL it, if it still runs, and wait until it is gone."""
        self._process.kill()
        self.wait()


def as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as a process gets them by its environment."""
    return {f"TOWPATH_{name.upper()}": value for name, value in settings.items()}


def run_command(arguments: Sequence[str], variables: Mapping[str, str], log_file: Path) -> None:
    """In the forked process: be `towpath` with these arguments."""
    from towpath.cli.main import run

    os.setsid()
    os.environ.update(variables)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with log_file.open("ab", buffering=0) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    sys.exit(run(arguments))


def _end_with_parent() -> None:
    """Leave nothing behind of a test run that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


def _loaded_context() -> ForkServerContext:
    """What forks from a process that loads the libraries from now on."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = PYTHON_PATH
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context
