"""Jobs for tests of what runs them."""

from __future__ import annotations

from towpath.lakehouse.plan import Job, JobKind, WalChunk


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
