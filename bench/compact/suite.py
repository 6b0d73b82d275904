"""`towpath bench compact`: the parts of the pipeline's benchmark, run after run."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from bench.compact.commits import Commits
from bench.compact.compaction import Compaction
from bench.compact.environment import describe
from bench.compact.lag import Lag
from bench.compact.memory import Memory
from bench.compact.part import Context, Part
from bench.compact.report import results_table, write_report
from bench.compact.results import Results
from bench.compact.rows import KAFKA_SPARK, ROWS, TUNED_SPARK, wanted_rows
from bench.compact.scale import FULL, QUICK
from bench.compact.spark_jars import spark_jars
from bench.errors import BenchError
from bench.idle_connections import allow_files
from bench.paths import CACHE, PARTIAL_RESULTS, RESULTS
from bench.prepare import prepare

RUNS = 3
RUNS_MAX = 99
PARTS: tuple[Part, ...] = (Compaction(), Commits(), Lag(), Memory())


def list_rows() -> None:
    """Print the ids that `--only` takes."""
    for row in ROWS:
        print(f"{row.id:<28} {row.title} ({row.unit})")


def run(options: argparse.Namespace) -> int:
    """Run it; the exit code. Raises BenchError if it cannot be run."""
    started = time.monotonic()
    patterns = [name for text in options.only for name in text.split(",") if name]
    wanted = frozenset(wanted_rows(patterns, quick=options.quick))
    runs = options.runs if options.runs is not None else 1 if options.quick else RUNS
    if not 1 <= runs <= RUNS_MAX:
        raise BenchError(f"--runs is between 1 and {RUNS_MAX}, not {runs}")
    scale = QUICK if options.quick else FULL
    is_partial = options.quick or bool(patterns)
    output = options.output or (PARTIAL_RESULTS if is_partial else RESULTS)
    allow_files()
    program = prepare()
    if any(row.peer in (KAFKA_SPARK, TUNED_SPARK) for row in ROWS if row.id in wanted):
        spark_jars()
    settings = {"quick": options.quick, "only": patterns, "runs": runs, **scale.to_json()}
    results = Results(describe(CACHE), settings)
    work = Workspace(scale.disk_free_bytes_min)
    try:
        for number in range(runs):
            context = Context(number, work.make(number), scale, program, wanted, results, _say)
            run_parts(PARTS, context)
    finally:
        work.clean()
    _close(results, write_report(results, output), time.monotonic() - started)
    return 1 if results.failures else 0


def run_parts(parts: Sequence[Part], context: Context) -> None:
    """Those that give a wanted row."""
    for part in parts:
        if context.wants(*part.rows):
            part.run(context)


class Workspace:
    """The directories of the runs."""

    def __init__(self, free_bytes_min: int) -> None:
        self._free_bytes_min = free_bytes_min
        self._made: list[Path] = []

    def make(self, run: int) -> Path:
        """A directory for one run; BenchError if the disk is too full. Those of earlier runs are
        kept as long as there is room: deleting many files slows down whoever makes new ones."""
        directory = CACHE / f"compact-{os.getpid()}-{run}"
        directory.mkdir(parents=True)
        if shutil.disk_usage(directory).free < self._free_bytes_min:
            self.clean()
        self._made.append(directory)
        free_bytes = shutil.disk_usage(directory).free
        if free_bytes < self._free_bytes_min:
            free_gb, needed_gb = free_bytes // 10**9, self._free_bytes_min // 10**9
            raise BenchError(f"{directory} has {free_gb} GB free, a run needs {needed_gb}")
        return directory

    def clean(self) -> None:
        """Remove them."""
        while self._made:
            shutil.rmtree(self._made.pop(), ignore_errors=True)


def _close(results: Results, written: list[Path], seconds: float) -> None:
    print(f"\n{results_table(results)}")
    met, judged = results.count_goals()
    print(f"{met} of {judged} goals reached; it took {seconds:.0f} s")
    for failure in results.failures:
        print(f"failed: {failure}")
    if not any(path.suffix == ".png" for path in written):
        print("no plots: matplotlib is not installed, or nothing to plot was measured")
    print("\n".join(str(path) for path in written))


def _say(line: str) -> None:
    print(line, flush=True)
