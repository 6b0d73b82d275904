"""Deals jobs out to tasks so that these end at about the same time.

A round often has few jobs of very different sizes, one per partition: as a whole they cannot be
dealt out evenly, and a single one would use a single core. So a large one is cut where it helps.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from towpath.lakehouse.plan import Job, JobKind, JobResult, WalChunk
from towpath.typed.infer import united
from towpath.typed.types import Fields

JOB_OVERHEAD_BYTES = 256 << 10
"""What a job costs beside its bytes, in bytes: many empty ones are work as well."""
PIECE_BYTES_MIN = 2 << 20
"""Each piece becomes a file of its own, and files should not be small."""
SHARE_BYTES_MIN = 16 << 20
"""A round with less work for each task is over soon, and its files are small enough as it is."""
UNEVEN_MIN = 0.03
"""Of a task's even share: below that a cut is not worth its file."""


@dataclass(frozen=True)
class Piece:
    """A job of the run, by its place, or a part of it."""

    index: int
    job: Job


class _Task:
    """The pieces that one task has been dealt."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.cost_bytes = 0

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.cost_bytes += _cost(piece.job)

    def cut(self, tail_bytes: int, part: int) -> Piece | None:
        """Take about so many bytes off the end of the largest piece; None if that leaves too little
        of it."""
        position = max(range(len(self.pieces)), key=lambda at: self.pieces[at].job.input_bytes)
        piece = self.pieces[position]
        if piece.job.input_bytes < tail_bytes + PIECE_BYTES_MIN:
            return None
        halves = _cut(piece.job, tail_bytes, part)
        if halves is None:
            return None
        head, tail = halves
        self.cost_bytes += _cost(head) - _cost(piece.job)
        self.pieces[position] = Piece(piece.index, head)
        return Piece(piece.index, tail)


def deal(jobs: Sequence[Job], tasks: int) -> list[list[Piece]]:
    """The pieces of all jobs, one list per task, in `tasks` lists or fewer; none is empty.

    The largest are dealt out first, each to the task with the least work, and are run first. Then
    the tasks with too much give a part of their largest to those with too little: fewer cuts than
    there are tasks.
    """
    dealt = _deal_whole(jobs, max(1, tasks))
    share_bytes = sum(task.cost_bytes for task in dealt) // len(dealt)
    gain_bytes_min = max(PIECE_BYTES_MIN, int(share_bytes * UNEVEN_MIN))
    for part in range(1, len(dealt) if share_bytes >= SHARE_BYTES_MIN else 0):
        busiest = max(dealt, key=lambda task: task.cost_bytes)
        idlest = min(dealt, key=lambda task: task.cost_bytes)
        wanted_bytes = min(busiest.cost_bytes - share_bytes, share_bytes - idlest.cost_bytes)
        tail_bytes = max(wanted_bytes, PIECE_BYTES_MIN)
        if busiest.cost_bytes - (idlest.cost_bytes + tail_bytes) < gain_bytes_min:
            break
        if (piece := busiest.cut(tail_bytes, part)) is None:
            break
        idlest.add(piece)
    return [task.pieces for task in dealt if task.pieces]


def join(pieces: Iterable[tuple[Job, JobResult]]) -> JobResult:
    """The result of a job, given its pieces and theirs: it failed if one of them did."""
    results = [result for _, result in sorted(pieces, key=lambda piece: piece[0].start)]
    first = results[0]
    if len(results) == 1:
        return first
    failed = next((result for result in results if result.error is not None), None)
    if failed is None and any(result.new_columns for result in results):
        # What the others wrote belongs to nobody: all of the job is run again.
        found: Fields = ()
        for result in results:
            found = united(found, result.new_columns)
        return JobResult(first.task_id, new_columns=found)
    return failed or JobResult(
        first.task_id,
        tuple(file for result in results for file in result.files),
        sum(result.record_count for result in results),
        sum(result.input_bytes for result in results),
        sum(result.cpu_seconds for result in results),
    )


def _deal_whole(jobs: Sequence[Job], tasks: int) -> list[_Task]:
    dealt = [_Task() for _ in range(tasks)]
    loads = [(0, number) for number in range(tasks)]
    for index in sorted(range(len(jobs)), key=lambda at: (-_cost(jobs[at]), at)):
        _, number = heapq.heappop(loads)
        dealt[number].add(Piece(index, jobs[index]))
        heapq.heappush(loads, (dealt[number].cost_bytes, number))
    return dealt


def _cost(job: Job) -> int:
    return job.input_bytes + JOB_OVERHEAD_BYTES


def _cut(job: Job, tail_bytes: int, part: int) -> tuple[Job, Job] | None:
    """A job's parts before and after the batch boundary that leaves about `tail_bytes` after it.
    None for those that have no such boundary: only what is read from WAL is a row of batches."""
    if job.kind is not JobKind.COMPACT:
        return None
    left_bytes = job.input_bytes - tail_bytes
    for position, chunk in enumerate(job.chunks):
        for number, (base_offset, _, length) in enumerate(chunk.batches):
            if left_bytes <= 0 and base_offset > job.start:
                before = _whole(replace(chunk, batches=chunk.batches[:number]))
                after = replace(chunk, batches=chunk.batches[number:])
                head = (*job.chunks[:position], *before)
                tail = (after, *job.chunks[position + 1 :])
                return (
                    replace(job, end=base_offset, chunks=head),
                    replace(job, start=base_offset, chunks=tail, part=part),
                )
            left_bytes -= length
    return None


def _whole(chunk: WalChunk) -> tuple[WalChunk, ...]:
    return (chunk,) if chunk.batches else ()
