"""What the two ways to Spark have in common: runs come one after the other, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from towpath.lakehouse.plan import Job, JobProgress, JobResult
from towpath.lakehouse.runners.execute import Execute, execute
from towpath.lakehouse.runners.isolate import run_isolated
from towpath.lakehouse.runners.live import listening
from towpath.lakehouse.runners.runner import Progress, Runner, RunnerUnavailable
from towpath.lakehouse.runners.spark_settings import SparkSettings
from towpath.threads import WorkThreads

R = TypeVar("R")


class Report:
    """What the thread of a run tells; whoever is told is told on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, progress: Progress | None) -> None:
        self._loop = loop
        self._progress = progress
        self._ended: set[str] = set()

    def ended(self, result: JobResult) -> None:
        """A job has ended; told once, although a job is run again when a run is taken apart."""
        if self._progress is not None and result.task_id not in self._ended:
            self._ended.add(result.task_id)
            self._loop.call_soon_threadsafe(self._progress.ended, result)

    def listening(
        self, hosts: tuple[str, str] | None
    ) -> contextlib.AbstractContextManager[str | None]:
        """The address for the jobs' workers to tell their progress to, given the hosts to bind and
        to be called by; None if nobody asks, or nobody could call."""
        if self._progress is None or hosts is None:
            return contextlib.nullcontext()
        return listening(self._loop, *hosts, self._advanced)

    def _advanced(self, progress: JobProgress) -> None:
        if self._progress is not None and progress.task_id not in self._ended:
            self._progress.advanced(progress)


class SparkRunner(Runner):
    """Runs jobs on a session that it owns. A run that is cancelled is aborted, which may cost the
    session. `execute` travels by its name: workers must be able to import its module."""

    def __init__(self, settings: SparkSettings, execute: Execute = execute) -> None:
        self.settings = settings
        self.execute = execute
        self._threads = WorkThreads(1, "spark")
        self._turn = asyncio.Lock()
        self._closed = False
        self._running = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_task: asyncio.Task[None] | None = None

    async def run(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[JobResult]:
        """As Runner has it. Runs that overlap wait for each other."""
        if not jobs:
            return []
        return await self._in_turn(self._running_jobs(jobs, progress))

    async def shuffle(self, job: Job) -> Job:
        """As Runner has it: Spark SQL finds the survivors."""
        return await self._in_turn(lambda: self.find_survivors(job))

    async def _in_turn(self, work: Callable[[], R]) -> R:
        """Do it in the thread once it is its turn."""
        async with self._turn:
            if self._closed:
                raise RunnerUnavailable("the runner is closed")
            self._cancel_timer()
            try:
                return await self._run_in_thread(work)
            finally:
                self._start_timer()

    async def idle(self) -> None:
        """End the session; the next run starts it again."""
        async with self._turn:
            self._cancel_timer()
            if not self._closed:
                await self._threads.run_to_end(self.stop_session)

    async def close(self) -> None:
        """Abort what runs and end the session."""
        again, self._closed = self._closed, True
        self._cancel_timer()
        if self._running:
            self.abort()
        async with self._turn:
            if not again:
                await self._threads.run_to_end(self.stop_session)
                self._threads.close(wait=False)

    @abstractmethod
    def run_jobs(self, jobs: Sequence[Job], report: Report) -> list[JobResult]:
        """In the thread: run the jobs; the results in their order. Those that are known before the
        end may be reported. Raises TaskFailed or RunnerUnavailable."""

    @abstractmethod
    def find_survivors(self, job: Job) -> Job:
        """In the thread: the job with the files of its survivors. Raises RunnerUnavailable."""

    @abstractmethod
    def stop_session(self) -> None:
        """In the thread: end the session, if there is one."""

    @abstractmethod
    def abort(self) -> None:
        """On the event loop: let `run_jobs` fail soon, whatever it does. Does not block."""

    @abstractmethod
    def resume(self) -> None:
        """On the event loop: an abort is over."""

    def _running_jobs(
        self, jobs: Sequence[Job], progress: Progress | None
    ) -> Callable[[], list[JobResult]]:
        """What the thread does for a run."""
        report = Report(asyncio.get_running_loop(), progress)

        def work() -> list[JobResult]:
            results = run_isolated(lambda part: self.run_jobs(part, report), jobs)
            for result in results:
                report.ended(result)
            return results

        return work

    async def _run_in_thread(self, work: Callable[[], R]) -> R:
        self.resume()
        self._running = True
        running = asyncio.ensure_future(self._threads.run(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.abort()
            await asyncio.wait([running])
            running.exception()
            raise
        finally:
            self._running = False

    def _start_timer(self) -> None:
        if self.settings.idle_stop_ms is not None and not self._closed:
            loop = asyncio.get_running_loop()
            delay_s = self.settings.idle_stop_ms / 1000
            self._idle_timer = loop.call_later(delay_s, self._become_idle)

    def _cancel_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _become_idle(self) -> None:
        self._idle_timer = None
        if not self._turn.locked():
            self._idle_task = asyncio.ensure_future(self.idle())
