"""Jobs are dealt out evenly, cut where that helps, and described."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lakehouse.helpers_jobs import some_job

from towpath.lakehouse.plan import Job, JobKind, JobResult, ParquetFile, WalChunk
from towpath.lakehouse.runners.balance import (
    JOB_OVERHEAD_BYTES,
    PIECE_BYTES_MIN,
    SHARE_BYTES_MIN,
    UNEVEN_MIN,
    Piece,
    deal,
    join,
)
from towpath.lakehouse.runners.describe import describe
from towpath.typed import types
from towpath.typed.types import Field

MIB = 1 << 20


def job_of_batches(number: int, mib: int, kind: JobKind = JobKind.COMPACT) -> Job:
    """A job of batches of 1 MiB with ten records each, seven batches to an object."""
    batches = [(10 + 10 * at, at * MIB, MIB) for at in range(mib)]
    chunks = [
        WalChunk(f"wal-{at}", tuple(batches[at : at + 7])) for at in range(0, len(batches), 7)
    ]
    return replace(some_job(number, kind=kind), end=10 + 10 * mib, chunks=tuple(chunks))


def numbers_of(dealt: list[list[Piece]]) -> list[list[int]]:
    return [[piece.index for piece in pieces] for pieces in dealt]


def mib_of(dealt: list[list[Piece]]) -> list[list[int]]:
    return [[piece.job.input_bytes // MIB for piece in pieces] for pieces in dealt]


@given(st.lists(st.integers(0, 500 * MIB), min_size=1, max_size=60), st.integers(1, 20))
def test_jobs_of_one_batch_are_dealt_out_whole_and_evenly(sizes: list[int], tasks: int) -> None:
    jobs = [some_job(number, size) for number, size in enumerate(sizes)]
    dealt = numbers_of(deal(jobs, tasks))
    assert len(dealt) == min(tasks, len(jobs))
    assert all(dealt)
    assert sorted(index for indices in dealt for index in indices) == list(range(len(jobs)))
    costs = [size + JOB_OVERHEAD_BYTES for size in sizes]
    loads = [sum(costs[index] for index in indices) for indices in dealt]
    # No task would be done earlier by giving its last job away.
    for indices, load in zip(dealt, loads, strict=True):
        assert load - costs[indices[-1]] <= min(loads)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=12), st.integers(1, 9))
def test_every_batch_is_in_one_piece_and_tasks_end_together(mib: list[int], tasks: int) -> None:
    jobs = [job_of_batches(number, size) for number, size in enumerate(mib)]
    dealt = deal(jobs, tasks)
    for index, job in enumerate(jobs):
        pieces = [piece.job for task in dealt for piece in task if piece.index == index]
        pieces.sort(key=lambda piece: piece.start)
        assert [pieces[0].start, pieces[-1].end] == [job.start, job.end]
        assert all(before.end == after.start for before, after in pairwise(pieces))
        batches = [batch for piece in pieces for chunk in piece.chunks for batch in chunk.batches]
        assert batches == [batch for chunk in job.chunks for batch in chunk.batches]
        assert all(piece.chunks[0].batches[0][0] == piece.start for piece in pieces)
        assert len({piece.part for piece in pieces}) == len(pieces)
    assert sum(len(task) for task in dealt) < len(jobs) + max(tasks, 1)
    loads = [sum(piece.job.input_bytes + JOB_OVERHEAD_BYTES for piece in task) for task in dealt]
    even = sum(loads) / tasks
    # A cut falls between two batches, and a piece that would be small is not cut off.
    small = max(PIECE_BYTES_MIN, even * UNEVEN_MIN)
    if even >= SHARE_BYTES_MIN:
        assert max(loads) <= even + 2 * small + tasks * MIB


def test_a_single_large_job_is_shared_by_all_tasks() -> None:
    assert mib_of(deal([job_of_batches(0, 400)], 4)) == [[100], [100], [100], [100]]
    assert mib_of(deal([job_of_batches(0, 400)], 1)) == [[400]]


def test_uneven_jobs_are_cut_once() -> None:
    jobs = [job_of_batches(number, mib) for number, mib in enumerate((71, 71, 47, 22))]
    dealt = deal(jobs, 2)
    assert numbers_of(dealt) == [[0, 2], [1, 3, 0]]
    assert mib_of(dealt) == [[59, 47], [71, 22, 12]]


def test_what_would_become_small_files_is_not_cut() -> None:
    assert mib_of(deal([job_of_batches(0, 31)], 2)) == [[31]]
    assert mib_of(
        deal([job_of_batches(number, mib) for number, mib in enumerate((33, 30))], 2)
    ) == [
        [33],
        [30],
    ]
    assert mib_of(deal([job_of_batches(0, 200), job_of_batches(1, 195)], 2)) == [[200], [195]]


def test_only_the_wal_can_be_cut() -> None:
    assert mib_of(deal([job_of_batches(0, 400, JobKind.KEY_COMPACT)], 4)) == [[400]]


def test_large_jobs_come_first_and_equal_ones_in_their_order() -> None:
    jobs = [some_job(number, size * MIB) for number, size in enumerate([1, 9, 1, 8, 1])]
    assert numbers_of(deal(jobs, 2)) == [[1, 2], [3, 0, 4]]
    assert numbers_of(deal(jobs, 1)) == [[1, 3, 0, 2, 4]]
    assert deal(jobs, 0) == deal(jobs, 1)


def test_many_empty_jobs_are_work_as_well() -> None:
    jobs = [some_job(number, 0) for number in range(100)]
    assert [len(pieces) for pieces in deal(jobs, 4)] == [25] * 4


def test_the_pieces_results_are_the_jobs_result() -> None:
    head, middle, tail = (replace(some_job(), start=at) for at in (10, 13, 17))
    files = [ParquetFile(f"out/{at}", 5, 1, 3, at, at + 2, 0, 0) for at in (10, 13, 17)]
    done = [JobResult("task-0", (file,), 3, 100, 0.5) for file in files]
    joined = join([(tail, done[2]), (head, done[0]), (middle, done[1])])
    assert joined == JobResult("task-0", tuple(files), 9, 300, 1.5)
    failed = JobResult("task-0", error="no more")
    assert join([(tail, failed), (head, done[0]), (middle, done[1])]) == failed
    assert join([(head, done[0])]) == done[0]


def test_new_columns_of_any_piece_are_the_jobs_and_the_first_to_come_wins() -> None:
    head, middle, tail = (replace(some_job(), start=at) for at in (10, 13, 17))
    file = ParquetFile("out/13", 5, 1, 3, 13, 15, 0, 0)
    a, other_a, b = (
        Field("a", types.LONG, "a"),
        Field("a", types.STRING, "a"),
        Field("b", types.DATE, "b"),
    )
    found = [
        (tail, JobResult("task-0", new_columns=(other_a, b))),
        (middle, JobResult("task-0", (file,), 3, 100, 0.5)),
        (head, JobResult("task-0", new_columns=(a,))),
    ]
    assert join(found) == JobResult("task-0", new_columns=(a, b))
    failed = JobResult("task-0", error="no more")
    assert join([*found[:2], (head, failed)]) == failed


def test_a_description_names_the_first_jobs() -> None:
    jobs = [some_job(number) for number in range(5)]
    assert describe(jobs[:1]) == "compact clicks-0 [10, 20)"
    assert describe(jobs) == (
        "compact clicks-0 [10, 20), compact clicks-1 [10, 20), compact clicks-2 [10, 20) +2 more"
    )
