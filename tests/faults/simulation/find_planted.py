"""Looks for the first seed that finds each planted bug.

`python -m tests.faults.simulation.find_planted` prints the table of `test_planted_bugs.py`; a bug
that no seed finds is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.faults.simulation.planted import BUGS, planted
from tests.faults.simulation.planted_tables import TABLE_BUGS
from tests.faults.simulation.simulation import simulate
from tests.faults.simulation.table_scenario import draw_tables

SEEDS_MAX = 500
TABLE_SEEDS_MAX = 2_000
"""As many, about, that have tables."""


def first_failing_seed(bug: str) -> int | None:
    """The first seed that fails with the bug."""
    with planted(bug):
        return next((seed for seed in seeds_for(bug) if simulate(seed).failures), None)


def seeds_for(bug: str) -> Iterator[int]:
    """The seeds that may find it."""
    if bug not in TABLE_BUGS:
        yield from range(SEEDS_MAX)
        return
    yield from (seed for seed in range(TABLE_SEEDS_MAX) if draw_tables(seed) is not None)


def main() -> int:
    """Look for all of them; 1 if one is not found."""
    found = {bug: first_failing_seed(bug) for bug in sys.argv[1:] or BUGS}
    for bug, seed in found.items():
        print(f'    "{bug}": {seed},', flush=True)
    return 1 if None in found.values() else 0


if __name__ == "__main__":
    sys.exit(main())
