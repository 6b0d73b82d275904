"""Jobs as an RDD on a classic session: a local one, or one on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.describe import describe
from towpath.lakehouse.runners.execute import Execute, execute
from towpath.lakehouse.runners.isolate import TaskFailed
from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_errors import is_task_failure, one_line
from towpath.lakehouse.runners.spark_runner import Report, SparkRunner
from towpath.lakehouse.runners.spark_session import ClassicSession
from towpath.lakehouse.runners.spark_settings import SparkSettings
from towpath.lakehouse.runners.spark_survivors import find_survivors
from towpath.lakehouse.runners.travel import Delivery, run_packed

JOB_GROUP = "towpath"


class SparkRddRunner(SparkRunner):
    """Runs jobs on Spark with a driver in this process. The results of all tasks are collected at
    once; until then the workers tell how far they have come."""

    def __init__(self, settings: SparkSettings, execute: Execute = execute) -> None:
        super().__init__(settings, execute)
        self.session = ClassicSession(settings)

    def run_jobs(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        """Run the jobs as one job of Spark, with as many tasks as there are cores."""
        context = self.session.context()
        try:
            with report.listening(self.settings.driver_hosts) as address:
                told = [replace(job, progress_to=address) for job in jobs]
                return self._collect(context, told)
        except Exception as error:
            unavailable = self._why_unavailable(error)
            if unavailable is None:
                raise TaskFailed(one_line(error)) from error
            raise unavailable from error

    def find_survivors(self, job: Job) -> Job:
        """Group the keys with Spark SQL on the same session."""
        from pyspark.sql import SparkSession

        context = self.session.context()
        context.setJobGroup(JOB_GROUP, f"survivors of {job.title}", interruptOnCancel=True)
        try:
            tasks = self.settings.tasks or context.defaultParallelism
            return find_survivors(SparkSession(context), job, tasks)
        except Exception as error:
            unavailable = self._why_unavailable(error)
            if unavailable is None:
                unavailable = RunnerUnavailable(f"{job.title}: {one_line(error)}")
            raise unavailable from error

    def _why_unavailable(self, error: Exception) -> RunnerUnavailable | None:
        """What a failure of Spark means; None if a task failed and the session is well."""
        if (reason := self.session.why_lost()) is not None:
            self.session.stop()
            return RunnerUnavailable(f"the run was lost: {reason}")
        if is_task_failure(error):
            return None
        return RunnerUnavailable(f"Spark cannot run the jobs: {one_line(error)}")

    def stop_session(self) -> None:
        self.session.stop()

    def abort(self) -> None:
        self.session.abort()

    def resume(self) -> None:
        self.session.resume()

    def _collect(self, context: Any, jobs: Sequence[Job]) -> list[JobResult]:
        delivery = Delivery(jobs, self.settings.tasks or context.defaultParallelism)
        tasks = delivery.tasks
        # These are properties of the thread, which is the one that runs the job.
        context.setJobGroup(JOB_GROUP, describe(jobs), interruptOnCancel=True)
        run = functools.partial(run_task, self.execute)
        for packed in context.parallelize(tasks, len(tasks)).mapPartitions(run).collect():
            delivery.arrive(packed)
        return delivery.results


def run_task(execute: Execute, tasks: Iterable[list[bytes]]) -> Iterator[bytes]:
    """In a worker: the packed results of a partition, which is one task's list of packed jobs."""
    for jobs in tasks:
        yield from run_packed(execute, jobs)
