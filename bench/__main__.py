"""`python -m bench`: what `towpath bench` runs."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from bench.environment import describe_environment
from bench.errors import BenchError
from bench.idle_connections import allow_files
from bench.paths import CACHE, PARTIAL_RESULTS, RESULTS
from bench.plan import Plan, wanted_rows
from bench.prepare import prepare
from bench.report import write_report
from bench.report.summary import count_goals
from bench.report.table import results_table
from bench.results import Results
from bench.rows import ROWS
from bench.scale import FULL, QUICK

if TYPE_CHECKING:
    from bench.shared.suite import Suite

BROKER, COMPACT, READ, GROUPS = "broker", "compact", "read", "groups"
SUITES = (BROKER, COMPACT, READ, GROUPS)
RUNS = 3
RUNS_MAX = 99


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    options = _parse(arguments)
    suite = None if options.suite == BROKER else _suite(options.suite)
    if options.list and suite is not None:
        suite.list_rows()
        return 0
    if options.list:
        for row in ROWS:
            print(f"{row.id:<32} {row.title} ({row.unit})")
        return 0
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        return _run(options) if suite is None else suite.run(options)
    except BenchError as error:
        print(f"towpath: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("towpath: stopped; nothing was written", file=sys.stderr)
        return 130


def _suite(name: str) -> Suite[Any]:
    """Loaded only when it is asked for: it may bring the pipeline along."""
    found: Suite[Any] = importlib.import_module(f"bench.{name}.suite").SUITE
    return found


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="towpath bench")
    parser.add_argument("suite", nargs="?", choices=SUITES, default=BROKER)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    patterns = [name for text in options.only for name in text.split(",") if name]
    rows = wanted_rows(patterns, quick=options.quick)
    runs = options.runs if options.runs is not None else 1 if options.quick else RUNS
    if not 1 <= runs <= RUNS_MAX:
        raise BenchError(f"--runs is between 1 and {RUNS_MAX}, not {runs}")
    scale = QUICK if options.quick else FULL
    is_partial = options.quick or bool(patterns)
    output = options.output or (PARTIAL_RESULTS if is_partial else RESULTS)
    allow_files()
    program = prepare()
    settings = {"quick": options.quick, "only": patterns, "runs": runs, **scale.to_json()}
    results = Results(describe_environment(CACHE), settings)
    plan = Plan(rows, scale, results, program, _say)
    try:
        for run in range(runs):
            plan.run(run, CACHE / f"work-{os.getpid()}-{run}")
    finally:
        plan.clean()
    written = write_report(results, output)
    _close(results, written, time.monotonic() - started)
    return 1 if results.failures else 0


def _close(results: Results, written: list[Path], seconds: float) -> None:
    print(f"\n{results_table(results)}")
    met, judged = count_goals(results)
    print(f"{met} of {judged} goals reached; it took {seconds:.0f} s")
    for failure in results.failures:
        print(f"failed: {failure}")
    if not any(path.suffix == ".png" for path in written):
        print("no plots: matplotlib is not installed")
    print("\n".join(str(path) for path in written))


def _say(line: str) -> None:
    print(line, flush=True)


def _on_terminate(number: int, frame: FrameType | None) -> None:
    """End as by Ctrl-C, so that the brokers are stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
