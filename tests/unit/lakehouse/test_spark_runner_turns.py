"""Runs take turns, are aborted when cancelled, and the session ends when nothing is run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.lakehouse.helpers_jobs import SeenProgress, some_job

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.isolate import TaskFailed
from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.runners.spark_runner import Report, SparkRunner
from towpath.lakehouse.runners.spark_settings import SparkSettings

PATIENCE_S = 20.0


class FakeSpark(SparkRunner):
    """A session that notes what it is told, and runs that end when they are let go."""

    def __init__(self, idle_stop_ms: int | None = None) -> None:
        super().__init__(SparkSettings(Path("/nowhere"), idle_stop_ms=idle_stop_ms))
        self.open = False
        self.stopped = asyncio.Event()
        self.started = threading.Semaphore(0)
        self.go = threading.Event()
        self.aborted = threading.Event()
        self.loop = asyncio.get_running_loop()
        self.killers: set[str] = set()

    def run_jobs(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        self.open = True
        self.started.release()
        while not self.go.wait(0.001):
            if self.aborted.is_set():
                raise RunnerUnavailable("aborted")
        results = [JobResult(job.task_id, record_count=job.partition) for job in jobs]
        report.ended(results[0])
        if self.killers & {job.task_id for job in jobs}:
            raise TaskFailed("a worker died")
        return results

    def find_survivors(self, job: Job) -> Job:
        raise NotImplementedError

    def stop_session(self) -> None:
        self.open = False
        self.loop.call_soon_threadsafe(self.stopped.set)

    def abort(self) -> None:
        self.aborted.set()

    def resume(self) -> None:
        self.aborted.clear()

    async def until_started(self) -> None:
        assert await asyncio.to_thread(self.started.acquire, timeout=PATIENCE_S)


class Threads(SeenProgress):
    """Notes in which threads it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[threading.Thread] = set()

    def ended(self, result: JobResult) -> None:
        self.threads.add(threading.current_thread())
        super().ended(result)


async def test_progress_is_told_once_per_job_on_the_loop() -> None:
    runner = FakeSpark()
    runner.go.set()
    runner.killers = {"task-2"}
    seen = Threads()
    results = await runner.run([some_job(number) for number in range(4)], seen)
    assert [result.error for result in results] == [None, None, "a worker died", None]
    assert sorted(result.task_id for result in seen.results) == [f"task-{n}" for n in range(4)]
    assert seen.threads == {threading.main_thread()}
    assert await runner.run([]) == []
    await runner.close()


async def test_runs_wait_for_each_other() -> None:
    runner = FakeSpark()
    runs = [asyncio.ensure_future(runner.run([some_job(number)])) for number in range(2)]
    await runner.until_started()
    assert not runner.started.acquire(blocking=False)
    runner.go.set()
    first, second = await asyncio.gather(*runs)
    assert (first[0].task_id, second[0].task_id) == ("task-0", "task-1")
    await runner.close()


async def test_a_cancelled_run_is_aborted_and_the_next_one_works() -> None:
    runner = FakeSpark()
    run = asyncio.ensure_future(runner.run([some_job()]))
    await runner.until_started()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    runner.go.set()
    assert [result.error for result in await runner.run([some_job()])] == [None]
    await runner.close()


async def test_closing_aborts_what_runs() -> None:
    runner = FakeSpark()
    run = asyncio.ensure_future(runner.run([some_job()]))
    await runner.until_started()
    await runner.close()
    with pytest.raises(RunnerUnavailable, match="aborted"):
        await run
    assert not runner.open
    with pytest.raises(RunnerUnavailable, match="closed"):
        await runner.run([some_job()])
    await runner.idle()
    await runner.close()


async def test_the_session_ends_by_itself_when_nothing_is_run() -> None:
    runner = FakeSpark(idle_stop_ms=1)
    runner.go.set()
    await runner.run([some_job()])
    async with asyncio.timeout(PATIENCE_S):
        await runner.stopped.wait()
    assert not runner.open
    await runner.close()


async def test_the_session_stays_while_runs_follow_each_other() -> None:
    runner = FakeSpark(idle_stop_ms=1)
    first = asyncio.ensure_future(runner.run([some_job()]))
    second = asyncio.ensure_future(runner.run([some_job()]))
    await runner.until_started()
    runner.go.set()
    await first
    runner.go.clear()
    await runner.until_started()
    await asyncio.sleep(0.01)
    assert not runner.stopped.is_set()
    runner.go.set()
    await second
    await runner.close()
