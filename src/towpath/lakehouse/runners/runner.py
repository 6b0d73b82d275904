"""What executes jobs, as the pipeline sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from towpath.lakehouse.plan import Job, JobProgress, JobResult


class Progress(Protocol):
    """Who is told, on the event loop, how the jobs of a run go."""

    def advanced(self, progress: JobProgress) -> None:
        """A job has come so far. An attempt that is lost begins again."""
        ...

    def ended(self, result: JobResult) -> None:
        """A job of the run has ended."""
        ...


class RunnerUnavailable(Exception):
    """Jobs cannot be run now (no Java, no cluster, a lost session); says why in one line."""


class Runner(ABC):
    """Runs jobs somewhere else than in the calling thread."""

    @abstractmethod
    async def run(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[JobResult]:
        """The results in the order of the jobs. A job that failed says so in its result; raises
        RunnerUnavailable if the run as a whole failed: then none of its results counts."""

    async def shuffle(self, job: Job) -> Job:
        """Find the survivors of a key compaction whose keys outgrew a worker's memory: the same job
        with files that name them. Raises RunnerUnavailable."""
        raise RunnerUnavailable(f"{job.title}: its keys outgrow a worker's memory")

    @abstractmethod
    async def idle(self) -> None:
        """Nothing will be run for a while: give back what costs memory."""

    @abstractmethod
    async def close(self) -> None:
        """Stop what runs and release everything."""
