"""Jobs that Spark's workers run in tests: what one does is written in its topic.

Workers import this module, so the repository has to be on their PYTHONPATH (`WORKER_PATH`).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from towpath.lakehouse.jobs.teller import Teller
from towpath.lakehouse.plan import Job, JobKind, JobResult, ParquetFile, WalChunk
from towpath.lakehouse.runners.execute import guarded

REPOSITORY = Path(__file__).resolve().parents[3]
WORKER_PATH = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")])
PATIENCE_S = 120.0


def make_job(number: int, topic: str = "echo", note: str | Path = "", size_bytes: int = 1) -> Job:
    """A job that does what its topic says; `note` is what it needs for that."""
    return Job(
        task_id=f"task-{number}",
        kind=JobKind.COMPACT,
        topic=topic,
        partition=number,
        start=0,
        end=100,
        output_dir=str(note),
        objects_url="memory://",
        field_ids={},
        chunks=(WalChunk("wal", ((0, 0, size_bytes),)),),
    )


def act(job: Job, attempt: str) -> JobResult:
    """Do what the job's topic says; the result names attempt and process."""
    return guarded(_act, job, attempt)


def attempt_of(result: JobResult) -> str:
    """The attempt that a result is from."""
    return result.files[0].path


def pid_of(result: JobResult) -> int:
    """The process that a result is from."""
    return result.files[0].size_bytes


def _act(job: Job, attempt: str) -> JobResult:
    match job.topic:
        case "fail":
            raise ValueError("it cannot\nbe done")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die-once":
            _die_once(Path(job.output_dir))
        case "wait":
            _wait(Path(job.output_dir), job)
    file = ParquetFile(attempt, os.getpid(), 0, job.partition, 0, 0, 0, 0)
    return JobResult(job.task_id, (file,), job.partition, job.input_bytes)


def _die_once(directory: Path) -> None:
    """Kill this process unless another did so before."""
    try:
        (directory / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _wait(directory: Path, job: Job) -> None:
    """Say which process runs the job, tell that half of it is done, and wait until the file `go`
    is there."""
    Teller(job).wrote((job.end - job.start) // 2, 1)
    (directory / f"{job.task_id}.{os.getpid()}").touch()
    deadline = time.monotonic() + PATIENCE_S
    while not (directory / "go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody said go")
        time.sleep(0.01)
