"""Jobs for tests of what runs them."""

from __future__ import annotations

import asyncio

from towpath.lakehouse.plan import Job, JobKind, JobProgress, JobResult, WalChunk


class SeenProgress:
    """Keeps what it is told of a run."""

    def __init__(self) -> None:
        self.advances: list[JobProgress] = []
        self.advance = asyncio.Event()
        self.results: list[JobResult] = []

    def advanced(self, progress: JobProgress) -> None:
        self.advances.append(progress)
        self.advance.set()

    def ended(self, result: JobResult) -> None:
        self.results.append(result)


def some_job(number: int = 0, size_bytes: int = 1, kind: JobKind = JobKind.COMPACT) -> Job:
    """A job of the given size; nothing that it names exists."""
    return Job(
        task_id=f"task-{number}",
        kind=kind,
        topic="clicks",
        partition=number,
        start=10,
        end=20,
        output_dir="out/",
        objects_url="file:///nowhere",
        field_ids={"offset": 1},
        chunks=(WalChunk("wal", ((10, 0, size_bytes),)),),
    )
