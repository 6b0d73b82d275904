"""Has jobs run, and run again those that could not do without something they did not have: a
shuffle of their keys, or columns for fields that nobody had seen before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.publish import TooManyConflicts
from towpath.lakehouse.runners.runner import Progress, Runner
from towpath.lakehouse.tables import TableError, TopicRef
from towpath.lakehouse.value_columns import ColumnsContended, ValueColumns
from towpath.typed.infer import united
from towpath.typed.types import Fields

RUNS_MAX = 6
"""Of one job in a round. Each run that ends in new columns leaves them behind, so the next round
begins where this one gave up."""


class JobRuns:
    """Runs the jobs of rounds."""

    def __init__(self, runner: Runner, columns: ValueColumns) -> None:
        self._runner = runner
        self._columns = columns

    async def run(
        self, jobs: Sequence[tuple[TopicRef, Job]], progress: Progress | None
    ) -> list[JobResult]:
        """Every job's final result, in their order. Raises RunnerUnavailable."""
        results: dict[int, JobResult] = {}
        waiting = dict(enumerate(jobs))
        for attempt in range(RUNS_MAX):
            if not waiting:
                break
            # Who watches has been told of each job once.
            watcher = progress if attempt == 0 else None
            fresh = await self._runner.run([job for _, job in waiting.values()], watcher)
            results.update(zip(waiting, fresh, strict=True))
            waiting = await self._again(waiting, results)
        for at, (_, job) in waiting.items():
            results[at] = JobResult(job.task_id, error="its values have ever more new fields")
        return [results[at] for at in range(len(jobs))]

    async def _again(
        self, ran: dict[int, tuple[TopicRef, Job]], results: dict[int, JobResult]
    ) -> dict[int, tuple[TopicRef, Job]]:
        """Those of the jobs that must be run again, as they must be."""
        again: dict[int, tuple[TopicRef, Job]] = {}
        found: dict[TopicRef, Fields] = {}
        for at, (topic, job) in ran.items():
            if results[at].needs_shuffle:
                again[at] = (topic, await self._runner.shuffle(job))
            elif results[at].new_columns:
                again[at] = (topic, job)
                found[topic] = united(found.get(topic, ()), results[at].new_columns)
        for topic, columns in found.items():
            await self._widen(topic, columns, again, results)
        return again

    async def _widen(
        self,
        topic: TopicRef,
        columns: Fields,
        again: dict[int, tuple[TopicRef, Job]],
        results: dict[int, JobResult],
    ) -> None:
        """Give a topic's table new columns, and let its jobs know them."""
        own = [at for at, (whose, job) in again.items() if whose == topic and job.typed is not None]
        typed = again[own[0]][1].typed
        assert typed is not None
        try:
            typed = await self._columns.prepare(topic, typed.declaration, columns)
        except (TableError, TooManyConflicts, ColumnsContended) as error:
            for at in own:
                results[at] = JobResult(again[at][1].task_id, error=str(error))
                del again[at]
            return
        for at in own:
            again[at] = (topic, replace(again[at][1], typed=typed))
