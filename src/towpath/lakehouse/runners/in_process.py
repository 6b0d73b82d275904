"""Jobs run in the calling thread: for tests and the simulation only."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.execute import Execute, guarded
from towpath.lakehouse.runners.runner import Progress, Runner


class InProcessRunner(Runner):
    """Runs each job with a function it is given; no two attempts have the same name."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._attempts = 0

    async def run(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[JobResult]:
        """As Runner has it, without ever giving control to the event loop."""
        results = []
        for job in jobs:
            self._attempts += 1
            result = guarded(self._execute, job, f"{self._attempts:06d}")
            results.append(result)
            if progress is not None:
                progress.ended(result)
        return results

    async def idle(self) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""
