"""Workers that run a compactor's jobs: the real jobs, on the shared objects, at their own pace.

They belong to nobody who could be killed or paused: a job that was started ends, whatever became of
the compactor that wanted it.
"""

from __future__ import annotations

import io
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import Any, BinaryIO

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.line import pass_pause
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.objects import SharedObjects
from tests.faults.simulation.rates import Rates
from tests.faults.simulation.stores import now

from towpath.lakehouse.jobs import compact, rewrite
from towpath.lakehouse.plan import Job, JobKind, JobResult
from towpath.lakehouse.runners.execute import guarded
from towpath.lakehouse.runners.runner import Progress, Runner, RunnerUnavailable
from towpath.objects.store import Buffer

ZOMBIE_S_MAX = 8.0
"""How long an attempt that was given up may go on."""
JOBS = {JobKind.COMPACT: compact.run, JobKind.REWRITE: rewrite.run}


class SimWorkerObjects:
    """A worker's way to the shared objects."""

    reads_at_once = 1

    def __init__(self, objects: SharedObjects) -> None:
        self._objects = objects

    def read(self, path: str, offset: int, length: int) -> Buffer:
        """See `WorkerObjects`."""
        return now(self._objects.read(path, offset, length))

    @contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        """See `WorkerObjects`."""
        sink = _Sink()
        yield sink
        now(self._objects.put(path, [sink.getvalue()]))


class _Sink(io.BytesIO):
    """Writers close their sink before its content is taken."""

    def close(self) -> None:
        pass


class SimRunner(Runner):
    """One compactor's runner."""

    def __init__(
        self, loop: SimLoop, node: Node, objects: SharedObjects, rates: Rates, chance: Chance
    ) -> None:
        self._loop = loop
        self._node = node
        self._objects = SimWorkerObjects(objects)
        self._rates = rates
        self._chance = chance
        self._world = Context()
        self._attempts = 0
        self.cut_until_s = 0.0
        """Until then the workers cannot reach the objects."""
        self.counts: Counter[str] = Counter()

    async def run(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[JobResult]:
        await pass_pause(self._loop, self._node)
        if self._node.dead:
            await self._loop.create_future()
        breaks = self._chance.happens(self._rates.runner.unavailable)
        results: list[Future[JobResult]] = [self._loop.create_future() for _ in jobs]
        for job, result in zip(jobs, results, strict=True):
            if breaks and self._chance.happens(0.5):
                continue
            self._begin(job, result)
        if breaks:
            self.counts["broken runs"] += 1
            gone: Future[None] = self._loop.create_future()
            self._later(self._duration_s(), _settle, gone, None)
            await gone
            raise RunnerUnavailable("the simulated session is gone")
        return [await result for result in results]

    async def idle(self) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""

    def _begin(self, job: Job, result: Future[JobResult]) -> None:
        """Start an attempt; the result comes from it or from the next one."""
        rates = self._rates.runner
        self.counts[f"{job.kind.value} attempts"] += 1
        if self._chance.happens(rates.zombie):
            self.counts["zombie attempts"] += 1
            late_s = self._duration_s() + self._chance.random() * ZOMBIE_S_MAX
            self._later(late_s, self._attempt, job, None)
            self._later(self._duration_s(), self._begin, job, result)
        elif self._chance.happens(rates.lost):
            self.counts["lost attempts"] += 1
            self._later(self._duration_s(), self._attempt, job, None)
            self._later(self._duration_s(), self._begin, job, result)
        else:
            self._later(self._duration_s(), self._attempt, job, result)

    def _attempt(self, job: Job, result: Future[JobResult] | None) -> None:
        self._attempts += 1
        attempt = f"{self._attempts:03d}{self._chance.getrandbits(32):08x}"
        done = guarded(self._run, job, attempt)
        if result is not None:
            self._later(self._chance.random() * self._rates.runner.delay_s, _settle, result, done)

    def _run(self, job: Job, attempt: str) -> JobResult:
        if self._chance.happens(self._rates.runner.failed) or self._loop.time() < self.cut_until_s:
            return JobResult(job.task_id, error="a simulated failure")
        return JOBS[job.kind](job, self._objects, attempt)

    def _duration_s(self) -> float:
        rates = self._rates.runner
        most_s = rates.slow_s if self._chance.happens(rates.slow) else rates.delay_s
        return self._chance.random() * most_s

    def _later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(delay_s, callback, *args, context=self._world)


def _settle(future: Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)
