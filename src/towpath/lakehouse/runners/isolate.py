"""Finds the job that kills its worker, so that the others of the run do not suffer from it.

A worker that dies takes its task with it; Spark tries the task again a few times and then gives up
on the run. Which of the task's jobs it was, nobody knows: the run is halved until it is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.runner import RunnerUnavailable

FAILED_RUNS_MAX = 12
"""Enough for one such job among two thousand. More of them mean that no worker works."""


class TaskFailed(Exception):
    """Spark gave up on a task after it tried it several times; says why in one line."""


def run_isolated(
    run: Callable[[Sequence[Job]], list[JobResult]], jobs: Sequence[Job]
) -> list[JobResult]:
    """The results of `run(jobs)`, which may raise TaskFailed: then of runs of parts of them, where
    a job that fails alone has that as its error. Raises RunnerUnavailable if nothing helps."""
    failures = 0

    def attempt(part: Sequence[Job]) -> list[JobResult]:
        nonlocal failures
        try:
            return run(part)
        except TaskFailed as failure:
            failures += 1
            if failures > FAILED_RUNS_MAX:
                raise RunnerUnavailable(f"no worker stays alive: {failure}") from failure
            if len(part) == 1:
                return [JobResult(part[0].task_id, error=str(failure))]
        middle = len(part) // 2
        return attempt(part[:middle]) + attempt(part[middle:])

    return attempt(jobs)
