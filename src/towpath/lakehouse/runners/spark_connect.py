"""Jobs as a DataFrame on a Spark Connect server, which needs the same Python packages as we do.

There is one row per task, and it holds the task's jobs. A table that a client sends is dealt out
by rows to as many partitions as a leaf of a plan may have, so that each row is a task by itself
and nothing is shuffled.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.describe import describe
from towpath.lakehouse.runners.execute import Execute, execute
from towpath.lakehouse.runners.isolate import TaskFailed
from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_errors import is_task_failure, one_line
from towpath.lakehouse.runners.spark_runner import Report, SparkRunner
from towpath.lakehouse.runners.spark_settings import SparkSettings
from towpath.lakehouse.runners.spark_survivors import find_survivors
from towpath.lakehouse.runners.travel import Delivery, run_packed

USER = "towpath"
LEAF_PARTITIONS = "spark.sql.leafNodeDefaultParallelism"
TASKS_MAX = 4096
RETRIES_MAX = 5
"""Of one call to the server, with pauses that grow to `RETRY_PAUSE_MAX_MS`: about 8 s."""
RETRY_PAUSE_MAX_MS = 4_000


class SparkConnectRunner(SparkRunner):
    """Runs jobs on a Spark Connect server. Results are reported as tasks end, in their order."""

    def __init__(self, settings: SparkSettings, execute: Execute = execute) -> None:
        super().__init__(settings, execute)
        self._session: Any = None
        self._cores = 0

    def run_jobs(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        """Run the jobs as one query, with as many tasks as the server has cores."""
        try:
            if self._session is None:
                self._session = self._open()
            return self._collect(self._session, jobs, report)
        except Exception as error:
            if is_task_failure(error):
                raise TaskFailed(one_line(error)) from error
            self.stop_session()
            raise RunnerUnavailable(f"Spark Connect failed: {one_line(error)}") from error

    def find_survivors(self, job: Job) -> Job:
        """Group the keys with Spark SQL on the same session."""
        try:
            if self._session is None:
                self._session = self._open()
            return find_survivors(self._session, job, self._cores)
        except Exception as error:
            if is_task_failure(error):
                raise RunnerUnavailable(f"{job.title}: {one_line(error)}") from error
            self.stop_session()
            raise RunnerUnavailable(f"Spark Connect failed: {one_line(error)}") from error

    def stop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            _release(session, self.settings.stop_timeout_ms / 1000)

    def abort(self) -> None:
        if self._session is not None:
            arguments = (self._session, self.settings.stop_timeout_ms / 1000)
            threading.Thread(target=_release, args=arguments, daemon=True).start()

    def resume(self) -> None:
        """An aborted session is gone; the next run opens another."""

    def _open(self) -> Any:
        """A session of our own, beside any other that this process may have."""
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        assert self.settings.remote is not None
        session = SparkSession(connection=self.settings.remote, userId=USER)
        policy = DefaultPolicy(max_retries=RETRIES_MAX, max_backoff=RETRY_PAUSE_MAX_MS)
        session.client.set_retry_policies([policy])
        # The exception says the same.
        warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
        try:
            for name, value in self.settings.conf.items():
                session.conf.set(name, value)
            self._cores = self.settings.tasks or _count_cores(session)
        except BaseException:
            _release(session, self.settings.stop_timeout_ms / 1000)
            raise
        return session

    def _collect(self, session: Any, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        import pyarrow as pa

        delivery = Delivery(jobs, min(self._cores, TASKS_MAX))
        session.conf.set(LEAF_PARTITIONS, str(len(delivery.tasks)))
        table = pa.table({"jobs": pa.array(delivery.tasks, pa.list_(pa.binary()))})
        run = functools.partial(run_batches, self.execute)
        session.clearTags()
        session.addTag(describe(jobs).replace(",", ";"))
        rows = session.createDataFrame(table).mapInArrow(run, "result binary").toLocalIterator()
        for row in rows:
            if (result := delivery.arrive(bytes(row[0]))) is not None:
                report.ended(result)
        return delivery.results


def run_batches(execute: Execute, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: a batch with one packed result for every packed job in the rows."""
    import pyarrow as pa

    for batch in batches:
        for jobs in batch.column(0).to_pylist():
            for result in run_packed(execute, jobs):
                yield pa.record_batch({"result": pa.array([result], pa.binary())})


def _count_cores(session: Any) -> int:
    """How many tasks run at once, as the server sees it: what it splits a range into."""
    rows = session.range(TASKS_MAX).selectExpr("spark_partition_id()").collect()
    return len({row[0] for row in rows})


def _release(session: Any, timeout_s: float) -> None:
    """End a session and what runs in it; a server that does not answer is left alone. Never
    raises. Not `stop()`: it repeats the call for long, and logs what does not matter."""

    def release() -> None:
        with contextlib.suppress(Exception):
            session.client.set_retry_policies([])
            session.client.release_session()

    releasing = threading.Thread(target=release, daemon=True)
    releasing.start()
    releasing.join(timeout_s)
    with contextlib.suppress(Exception):
        session.client.close()
