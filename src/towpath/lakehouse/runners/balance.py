"""Deals jobs out to tasks so that these end at about the same time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from towpath.lakehouse.plan import Job

JOB_OVERHEAD_BYTES = 256 << 10
"""What a job costs beside its bytes, in bytes: many empty ones are work as well."""


def balance(jobs: Sequence[Job], tasks: int) -> list[list[int]]:
    """The jobs' indices, one list per task, in `tasks` lists or fewer; none is empty. The largest
    are dealt out first, each to the task with the least work, and are run first."""
    count = max(1, min(tasks, len(jobs)))
    costs = [job.input_bytes + JOB_OVERHEAD_BYTES for job in jobs]
    dealt: list[list[int]] = [[] for _ in range(count)]
    loads = [(0, task) for task in range(count)]
    for index in sorted(range(len(jobs)), key=lambda i: (-costs[i], i)):
        load, task = heapq.heappop(loads)
        dealt[task].append(index)
        heapq.heappush(loads, (load + costs[index], task))
    return [indices for indices in dealt if indices]
