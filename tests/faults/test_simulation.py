"""Seeds of the simulation: the real core under faults, and runs that repeat exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.simulation.run import replay_command
from tests.faults.simulation.simulation import simulate

SEEDS = int(os.environ.get("TOWPATH_SIMULATION_SEEDS", "200"))
"""How many seeds the usual tests run."""
MANY_SEEDS = 2_000
CHUNKS = 8
"""Tests that the seeds are spread over, so that several processes can share them."""
REPEATED_SEEDS = (3, 8, 62)
"""Seeds with several brokers, disasters and removals, for the comparison of two runs."""
RICH_SEEDS = range(30)
"""Seeds that have everything between them."""
ROOT = Path(__file__).parents[2]
DIGESTS = (
    "from tests.faults.simulation.simulation import simulate\n"
    f"print(*(simulate(seed).digest for seed in {REPEATED_SEEDS}))\n"
)


def run_seeds(seeds: range) -> None:
    """Run them all and fail with what was found in the first ones that failed."""
    failed = [outcome for seed in seeds if (outcome := simulate(seed)).failures]
    told = [
        f"seed {outcome.seed}: {outcome.failures[0]}\n  {replay_command(outcome.seed)}"
        for outcome in failed[:3]
    ]
    assert not failed, f"{len(failed)} of {len(seeds)} seeds failed\n" + "\n".join(told)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken_under_faults(chunk: int) -> None:
    run_seeds(range(chunk, SEEDS, CHUNKS))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken_in_many_runs(chunk: int) -> None:
    run_seeds(range(SEEDS + chunk, MANY_SEEDS, CHUNKS))


def test_runs_do_what_they_are_for() -> None:
    """A simulation in which nothing fails, or nothing works, would pass every check."""
    totals: dict[str, int] = {}
    for seed in RICH_SEEDS:
        for name, count in simulate(seed).counts.items():
            totals[name] = totals.get(name, 0) + count
    for name in (
        "acknowledged batches",
        "records read",
        "deleted objects",
        "deleted records",
        "deleted topics",
        "declarations",
        "typed rows",
        "produce KAFKA_STORAGE_ERROR",
        "produce OUT_OF_ORDER_SEQUENCE_NUMBER",
        "produce REQUEST_TIMED_OUT",
        "fetch KAFKA_STORAGE_ERROR",
    ):
        assert totals.get(name, 0) > 0, f"no run has {name}: {totals}"


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    here = [simulate(seed).digest for seed in REPEATED_SEEDS]
    assert here == [simulate(seed).digest for seed in REPEATED_SEEDS]
    for hash_seed in ("1", "4242"):
        there = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.split() == here


def test_seeds_differ() -> None:
    assert simulate(1).digest != simulate(2).digest
