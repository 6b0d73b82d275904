"""Runs seeds of the simulation: `python -m tests.faults.simulation.run --seeds 1000`.

A seed that fails is printed with what failed and the command that replays it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.faults.simulation.planted import BUGS, planted
from tests.faults.simulation.scenario import draw
from tests.faults.simulation.simulation import Outcome, simulate

FAILURES_SHOWN = 5


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds that the arguments name; 1 if one of them failed."""
    options = _parser().parse_args(arguments)
    if options.seed is not None:
        return _replay(options.seed, options.planted, verbose=options.verbose)
    started = time.process_time()
    failed = run_count = 0
    totals: Counter[str] = Counter()
    seeds = range(options.start, options.start + options.seeds)
    for seed in (one for one in seeds if _is_wanted(one, options)):
        with planted(options.planted):
            outcome = simulate(seed)
        run_count += 1
        totals.update(outcome.counts)
        totals["steps"] += outcome.steps
        if outcome.failures:
            failed += 1
            _tell(outcome, options.planted)
            if options.planted or failed >= options.stop_after:
                break
    took_s = time.process_time() - started
    print(f"{run_count} seeds from {options.start}: {failed} failed, {took_s:.1f} s of CPU")
    if options.verbose:
        for name, count in sorted(totals.items()):
            print(f"{count:10d} {name}")
    return 1 if failed else 0


def _is_wanted(seed: int, options: argparse.Namespace) -> bool:
    scenario, _ = draw(seed)
    if options.tables:
        return scenario.tables is not None
    return not options.groups or scenario.groups is not None


def _replay(seed: int, bug: str | None, *, verbose: bool) -> int:
    with planted(bug):
        outcome = simulate(seed, print if verbose else None)
    if outcome.failures:
        _tell(outcome, bug)
    print(f"digest {outcome.digest}")
    return 1 if outcome.failures else 0


def _tell(outcome: Outcome, bug: str | None) -> None:
    print(f"seed {outcome.seed} failed")
    for failure in outcome.failures[:FAILURES_SHOWN]:
        print(f"  {failure}")
    print(f"  replay: {replay_command(outcome.seed, bug)}", flush=True)


def replay_command(seed: int, bug: str | None = None) -> str:
    """The command that runs a seed again and prints every event."""
    option = f" --planted {bug}" if bug else ""
    return f"python -m tests.faults.simulation.run --seed {seed}{option} --verbose"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--tables", action="store_true", help="only seeds with compactors")
    parser.add_argument("--groups", action="store_true", help="only seeds with consumer groups")
    parser.add_argument("--seed", type=int, help="run this seed only")
    parser.add_argument("--verbose", action="store_true", help="print every event")
    parser.add_argument("--stop-after", type=int, default=10, help="failures before giving up")
    parser.add_argument("--planted", choices=sorted(BUGS), help="with a known bug in the product")
    return parser


if __name__ == "__main__":
    sys.exit(main())
