"""A job that kills its worker is found, at a bounded price."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lakehouse.helpers_jobs import some_job

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.isolate import FAILED_RUNS_MAX, TaskFailed, run_isolated
from towpath.lakehouse.runners.runner import RunnerUnavailable


class Spark:
    """Runs jobs unless one of them is a killer, and counts its runs."""

    def __init__(self, killers: set[int]) -> None:
        self.killers = {f"task-{number}" for number in killers}
        self.runs = 0

    def run(self, jobs: Sequence[Job]) -> list[JobResult]:
        self.runs += 1
        if any(job.task_id in self.killers for job in jobs):
            raise TaskFailed("a worker died")
        return [JobResult(job.task_id, record_count=1) for job in jobs]


def test_a_run_that_works_is_one_run() -> None:
    spark = Spark(set())
    results = run_isolated(spark.run, [some_job(number) for number in range(9)])
    assert [result.record_count for result in results] == [1] * 9
    assert spark.runs == 1


@given(st.integers(1, 2000), st.data())
def test_one_killer_is_found_among_many(count: int, data: st.DataObject) -> None:
    killer = data.draw(st.integers(0, count - 1))
    spark = Spark({killer})
    results = run_isolated(spark.run, [some_job(number) for number in range(count)])
    assert [result.task_id for result in results] == [f"task-{number}" for number in range(count)]
    assert [r.task_id for r in results if r.error == "a worker died"] == [f"task-{killer}"]
    assert spark.runs <= 2 * FAILED_RUNS_MAX


def test_workers_that_never_live_end_the_run() -> None:
    spark = Spark(set(range(100)))
    with pytest.raises(RunnerUnavailable, match="no worker stays alive: a worker died"):
        run_isolated(spark.run, [some_job(number) for number in range(100)])
    assert spark.runs == FAILED_RUNS_MAX + 1
