"""How jobs and results cross Spark: pickled one by one, and compressed.

A job names every batch it has to read; Spark keeps a run's jobs in the driver's heap, and a task
that is larger than a message may be is refused. Pickling jobs one by one holds the interpreter's
lock for one job's time only.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import zstandard

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.execute import Execute

LEVEL = 1


def pack(value: object) -> bytes:
    """The value as bytes that may be sent."""
    return zstandard.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), LEVEL)


def unpack(data: bytes) -> Any:
    """What was packed."""
    return pickle.loads(zstandard.decompress(data))


def pack_job(index: int, job: Job) -> bytes:
    """A job and its place in the run."""
    return pack((index, job))


def unpack_result(data: bytes) -> tuple[int, JobResult]:
    """A result and the place of its job in the run."""
    index, result = unpack(data)
    return index, result


def run_packed(execute: Execute, jobs: Iterable[bytes]) -> Iterator[bytes]:
    """In a worker: run the packed jobs of one task, one after the other; the packed results. Every
    attempt at a task has a name of its own, whichever process makes it."""
    attempt = f"{_attempt_number()}-{uuid.uuid4().hex}"
    for data in jobs:
        index, job = unpack(data)
        yield pack((index, execute(job, attempt)))


def _attempt_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())
