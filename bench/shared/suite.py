"""Runs a suite: its parts, run after run, and what they leave behind."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from bench.errors import BenchError
from bench.idle_connections import allow_files
from bench.paths import CACHE, PARTIAL_RESULTS, RESULTS
from bench.prepare import prepare
from bench.shared.environment import describe
from bench.shared.part import Context, Part, S
from bench.shared.report import Report, results_table, write_report
from bench.shared.results import Results
from bench.shared.rows import KAFKA_SPARK, TUNED_SPARK, Rows
from bench.shared.spark_jars import spark_jars

RUNS = 3
RUNS_MAX = 99


@dataclass(frozen=True)
class Suite(Generic[S]):
    """What is measured, how much of it, and how it is told."""

    rows: Rows
    parts: Sequence[Part[S]]
    full: S
    quick: S
    report: Report
    environment: Callable[[Path], dict[str, object]] = describe
    """Tells what it runs on and with, given the directory of the brokers' data."""

    def list_rows(self) -> None:
        """Print the ids that `--only` takes."""
        for row in self.rows.all:
            print(f"{row.id:<28} {row.title} ({row.unit})")

    def run(self, options: argparse.Namespace) -> int:
        """Run it; the exit code. Raises BenchError if it cannot be run."""
        started = time.monotonic()
        patterns = [name for text in options.only for name in text.split(",") if name]
        wanted = frozenset(self.rows.wanted(patterns, quick=options.quick))
        runs = options.runs if options.runs is not None else 1 if options.quick else RUNS
        if not 1 <= runs <= RUNS_MAX:
            raise BenchError(f"--runs is between 1 and {RUNS_MAX}, not {runs}")
        scale = self.quick if options.quick else self.full
        is_partial = options.quick or bool(patterns)
        output = options.output or (PARTIAL_RESULTS if is_partial else RESULTS)
        allow_files()
        program = prepare()
        if any(self.rows.by_id[row].peer in (KAFKA_SPARK, TUNED_SPARK) for row in wanted):
            spark_jars()
        settings = {"quick": options.quick, "only": patterns, "runs": runs, **scale.to_json()}
        results = Results(self.rows, self.environment(CACHE), settings)
        work = Workspace(self.rows.suite, scale.disk_free_bytes_min)
        try:
            for number in range(runs):
                context = Context(number, work.make(number), scale, program, wanted, results, _say)
                run_parts(self.parts, context)
        finally:
            work.clean()
        written = write_report(self.report, results, output)
        _close(results, written, time.monotonic() - started)
        return 1 if results.failures else 0


def run_parts(parts: Sequence[Part[S]], context: Context[S]) -> None:
    """Those that give a wanted row."""
    for part in parts:
        if context.wants(*part.rows):
            part.run(context)


class Workspace:
    """The directories of the runs."""

    def __init__(self, name: str, free_bytes_min: int) -> None:
        self._name = name
        self._free_bytes_min = free_bytes_min
        self._made: list[Path] = []

    def make(self, run: int) -> Path:
        """A directory for one run; BenchError if the disk is too full. Those of earlier runs are
        kept as long as there is room: deleting many files slows down whoever makes new ones."""
        directory = CACHE / f"{self._name}-{os.getpid()}-{run}"
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
