"""Jobs are dealt out evenly, and described."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lakehouse.helpers_jobs import some_job

from towpath.lakehouse.runners.balance import JOB_OVERHEAD_BYTES, balance
from towpath.lakehouse.runners.describe import describe

MIB = 1 << 20


@given(st.lists(st.integers(0, 500 * MIB), min_size=1, max_size=60), st.integers(1, 20))
def test_every_job_is_dealt_out_once_and_evenly(sizes: list[int], tasks: int) -> None:
    jobs = [some_job(number, size) for number, size in enumerate(sizes)]
    dealt = balance(jobs, tasks)
    assert len(dealt) == min(tasks, len(jobs))
    assert all(dealt)
    assert sorted(index for indices in dealt for index in indices) == list(range(len(jobs)))
    costs = [size + JOB_OVERHEAD_BYTES for size in sizes]
    loads = [sum(costs[index] for index in indices) for indices in dealt]
    # No task would be done earlier by giving its last job away.
    for indices, load in zip(dealt, loads, strict=True):
        assert load - costs[indices[-1]] <= min(loads)


def test_large_jobs_come_first_and_equal_ones_in_their_order() -> None:
    jobs = [some_job(number, size * MIB) for number, size in enumerate([1, 9, 1, 8, 1])]
    assert balance(jobs, 2) == [[1, 2], [3, 0, 4]]
    assert balance(jobs, 1) == [[1, 3, 0, 2, 4]]
    assert balance(jobs, 0) == balance(jobs, 1)


def test_many_empty_jobs_are_work_as_well() -> None:
    jobs = [some_job(number, 0) for number in range(100)]
    assert [len(indices) for indices in balance(jobs, 4)] == [25] * 4


def test_a_description_names_the_first_jobs() -> None:
    jobs = [some_job(number) for number in range(5)]
    assert describe(jobs[:1]) == "compact clicks-0 [10, 20)"
    assert describe(jobs) == (
        "compact clicks-0 [10, 20), compact clicks-1 [10, 20), compact clicks-2 [10, 20) +2 more"
    )
