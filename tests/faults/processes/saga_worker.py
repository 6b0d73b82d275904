"""Spark's daemon of Python workers for the tests of the saga: told to, a worker stops itself.

The place is the one after a job has written its files and before anybody knows of them. Spark runs
this module in the place of Towpath's daemon, with the same arguments.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners import execute, worker_daemon

MODULE = "tests.faults.processes.saga_worker"
VARIABLE = "TOWPATH_TEST_STRIKE"
"""Names a file: whoever removes it is the one to stop."""

Run = Callable[[Job, str], JobResult]


def stopping(run: Run) -> Run:
    """As `run`, but the first worker that finds the file stops before it returns."""
    strike = Path(os.environ[VARIABLE])

    def run_and_stop(job: Job, attempt: str) -> JobResult:
        result = run(job, attempt)
        try:
            strike.unlink()
        except FileNotFoundError:
            return result
        os.kill(os.getpid(), signal.SIGSTOP)
        return result

    return run_and_stop


if __name__ == "__main__":
    execute._run = stopping(execute._run)  # type: ignore[assignment]
    worker_daemon.main()
