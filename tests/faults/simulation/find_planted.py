"""Looks for the first seed that finds each planted bug.

`python -m tests.faults.simulation.find_planted` prints the table of `test_planted_bugs.py`; a bug
that no seed finds is an error.
"""

from __future__ import annotations

import sys

from tests.faults.simulation.planted import BUGS, planted
from tests.faults.simulation.simulation import simulate

SEEDS_MAX = 500


def first_failing_seed(bug: str) -> int | None:
    """The first seed that fails with the bug."""
    with planted(bug):
        return next((seed for seed in range(SEEDS_MAX) if simulate(seed).failures), None)


def main() -> int:
    """Look for all of them; 1 if one is not found."""
    found = {bug: first_failing_seed(bug) for bug in sys.argv[1:] or BUGS}
    for bug, seed in found.items():
        print(f'    "{bug}": {seed},', flush=True)
    return 1 if None in found.values() else 0


if __name__ == "__main__":
    sys.exit(main())
