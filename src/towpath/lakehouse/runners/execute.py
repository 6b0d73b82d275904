"""What a worker does with a job. Everything here runs in Spark's Python workers.

Nothing of the pipeline is imported before the first job: the driver imports this module as well,
to name its functions, and needs neither the kernels nor a store for that.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Protocol

from towpath.lakehouse.plan import Job, JobKind, JobResult

if TYPE_CHECKING:
    from collections.abc import Callable

STORES_MAX = 8
"""Object stores that a worker process keeps open."""
_MODULES = {
    JobKind.COMPACT: "towpath.lakehouse.jobs.compact",
    JobKind.REWRITE: "towpath.lakehouse.jobs.rewrite",
    JobKind.KEY_COMPACT: "towpath.lakehouse.jobs.key_compact",
}


class Execute(Protocol):
    """Runs one job; `attempt` makes the names of its files unique. Never raises for the job's
    sake: what went wrong is in the result."""

    def __call__(self, job: Job, attempt: str) -> JobResult: ...


def execute(job: Job, attempt: str) -> JobResult:
    """Run a job of the pipeline. The stores it opens stay open for the next job."""
    return guarded(_run, job, attempt)


def guarded(run: Callable[[Job, str], JobResult], job: Job, attempt: str) -> JobResult:
    """The result of `run`, or the one that tells why it failed: type and message in one line."""
    try:
        return run(job, attempt)
    except Exception as error:  # noqa: BLE001 - a job's failure is its result.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return JobResult(job.task_id, error=reason)


def _run(job: Job, attempt: str) -> JobResult:
    module = importlib.import_module(_MODULES[job.kind])
    result: JobResult = module.run(job, objects_of(job), attempt)
    return result


def objects_of(job: Job) -> Any:
    """The store that a job names."""
    return open_objects(job.objects_url, tuple(sorted(job.objects_options.items())))


@functools.lru_cache(maxsize=STORES_MAX)
def open_objects(url: str, options: tuple[tuple[str, str], ...]) -> Any:
    """The store of a job as workers use it; opened once per process."""
    worker = importlib.import_module("towpath.objects.worker")
    return worker.open_worker_objects(url, dict(options))
