"""Looks for the first seed that finds each planted bug.

`python -m tests.faults.simulation.find_planted` prints the table of `test_planted_bugs.py`; a bug
that no seed finds is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.faults.simulation.planted import BUGS, planted
from tests.faults.simulation.planted_groups import GROUP_BUGS
from tests.faults.simulation.planted_tables import TABLE_BUGS
from tests.faults.simulation.scenario import draw
from tests.faults.simulation.simulation import simulate

SEEDS_MAX = 500
TABLE_SEEDS_MAX = 2_000
"""As many, about, that have tables."""
GROUP_SEEDS_MAX = 1_000
"""About 300 have groups."""


def first_failing_seed(bug: str) -> int | None:
    """The first seed that fails with the bug."""
    with planted(bug):
        return next((seed for seed in seeds_for(bug) if simulate(seed).failures), None)


def seeds_for(bug: str) -> Iterator[int]:
    """The seeds that may find it."""
    if bug in TABLE_BUGS:
        yield from (seed for seed in range(TABLE_SEEDS_MAX) if draw(seed)[0].tables is not None)
    elif bug in GROUP_BUGS:
        yield from (seed for seed in range(GROUP_SEEDS_MAX) if draw(seed)[0].groups is not None)
    else:
        yield from range(SEEDS_MAX)


def main() -> int:
    """Look for all of them; 1 if one is not found."""
    found = {bug: first_failing_seed(bug) for bug in sys.argv[1:] or BUGS}
    for bug, seed in found.items():
        print(f'    "{bug}": {seed},', flush=True)
    return 1 if None in found.values() else 0


if __name__ == "__main__":
    sys.exit(main())
