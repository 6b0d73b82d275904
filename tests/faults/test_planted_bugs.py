"""The simulation finds known bugs: each fails a seed that passes without the bug.

The table holds the first seed that finds each bug, as told by
`python -m tests.faults.simulation.find_planted`. A change of the product may move a bug to another
seed; then the test looks for it again, which takes longer, and the table should be renewed.
"""

from __future__ import annotations

import pytest
from tests.faults.simulation.find_planted import first_failing_seed
from tests.faults.simulation.planted import BUGS, planted
from tests.faults.simulation.simulation import simulate

FOUND_BY_SEED = {
    "commit-before-put": 0,
    "marker-not-checked": 160,
    "tail-not-compared": 27,
    "ambiguous-commit-resent": 5,
    "ambiguous-commit-discarded": 5,
    "watch-ignored": 0,
    "log-start-never-forgotten": 0,
    "topic-changes-ignored": 1,
    "stale-end-answered": 6,
    "orphans-not-looked-up": 3,
    "orphans-not-condemned": 0,
    "index-not-confirmed": 160,
    "one-deref-enough": 13,
    "producers-not-rebuilt": 5,
    "producers-not-saved": 5,
    "removed-entries-skipped": 117,
    "failed-put-forgotten": 3,
    "log-start-not-moved": 0,
    "swap-not-compared": 115,
    "commit-retried-blindly": 5,
    "range-not-fenced": 89,
    "swap-before-commit": 5,
    "early-deref-not-confirmed": 12,
    "snapshots-not-asked": 5,
    "cleared-beyond-range": 5,
    "producers-not-kept": 5,
    "dropped-table-not-refilled": 103,
    "rewritten-files-not-looked-for": 103,
    "task-not-compared": 15,
    "done-task-left": 94,
    "ordered-before-swap": 15,
    "files-of-tasks-are-orphans": 159,
    "table-ahead-of-index": 13,
    "old-files-not-looked-for": 107,
    "reasons-lost": 12,
    "found-columns-forgotten": 14,
    "digests-not-read": 6,
    "digests-not-written": 6,
    "root-not-compared": 77,
    "offsets-without-condition": 603,
    "unknown-commit-acknowledged": 32,
    "blobs-deleted-first": 25,
    "new-blobs-swept": 29,
    "blobs-never-collected": 25,
    "lease-not-checked": 894,
    "timers-not-restarted": 279,
    "waiting-not-alive": 158,
    "sessions-not-ended": 6,
    "orphans-not-adopted": 649,
    "generation-not-raised": 6,
    "owners-not-asked": 24,
    "epoch-not-raised": 24,
    "view-without-barrier": 171,
    "root-changes-ignored": 17,
    "unknown-save-believed": 31,
    "written-per-heartbeat": 25,
    "static-member-not-fenced": 6,
    "leases-kept": 6,
}


def test_every_bug_has_a_seed() -> None:
    assert FOUND_BY_SEED.keys() == set(BUGS)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", sorted(FOUND_BY_SEED))
def test_a_planted_bug_is_found(bug: str) -> None:
    seed: int | None = FOUND_BY_SEED[bug]
    assert seed is not None
    with planted(bug):
        found = bool(simulate(seed).failures)
    if not found:
        seed = first_failing_seed(bug)
        assert seed is not None, f"no seed finds {bug}"
    assert simulate(seed).failures == []
