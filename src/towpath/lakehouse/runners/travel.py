"""How jobs and results cross Spark: pickled one by one, and compressed.

A job names every batch it has to read; Spark keeps a run's jobs in the driver's heap, and a task
that is larger than a message may be is refused. Pickling jobs one by one holds the interpreter's
lock for one job's time only.
"""

from __future__ import annotations

import pickle
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import zstandard

from towpath.lakehouse.plan import Job, JobResult
from towpath.lakehouse.runners.balance import Piece, deal, join
from towpath.lakehouse.runners.execute import Execute

LEVEL = 1


def pack(value: object) -> bytes:
    """The value as bytes that may be sent."""
    return zstandard.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), LEVEL)


def unpack(data: bytes) -> Any:
    """What was packed."""
    return pickle.loads(zstandard.decompress(data))


class Delivery:
    """The jobs of a run on their way to the tasks, and their results on the way back."""

    def __init__(self, jobs: Sequence[Job], tasks: int) -> None:
        self._pieces: list[Piece] = []
        self._piece_counts: Counter[int] = Counter()
        self._arrived: defaultdict[int, list[tuple[Job, JobResult]]] = defaultdict(list)
        self._results: dict[int, JobResult] = {}
        self.tasks = [[self._pack(piece) for piece in pieces] for pieces in deal(jobs, tasks)]
        """The packed jobs of each task, for `run_packed`."""

    @property
    def results(self) -> list[JobResult]:
        """Those of all jobs in their order, once all have arrived."""
        return [self._results[index] for index in range(len(self._results))]

    def arrive(self, data: bytes) -> JobResult | None:
        """Take a packed result: that of its job if the job is done with it."""
        number, result = unpack(data)
        piece = self._pieces[number]
        self._arrived[piece.index].append((piece.job, result))
        if len(self._arrived[piece.index]) < self._piece_counts[piece.index]:
            return None
        joined = self._results[piece.index] = join(self._arrived.pop(piece.index))
        return joined

    def _pack(self, piece: Piece) -> bytes:
        self._pieces.append(piece)
        self._piece_counts[piece.index] += 1
        return pack((len(self._pieces) - 1, piece.job))


def run_packed(execute: Execute, jobs: Iterable[bytes]) -> Iterator[bytes]:
    """In a worker: run the packed jobs of one task, one after the other; the packed results. Every
    attempt at a task has a name of its own, whichever process makes it."""
    attempt = f"{_attempt_number()}-{uuid.uuid4().hex}"
    for data in jobs:
        number, job = unpack(data)
        yield pack((number, execute(job, attempt)))


def _attempt_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())
