"""One benchmark: which systems run which cases, in which order.

In each run every system starts on an empty directory and stays up until the run ends. A case is
measured on one system after the other while the others are idle, and the order of the systems is
another one in each run; before each measurement the kernel writes back what earlier ones left
dirty, so that nobody pays for somebody else's unsynced pages.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from bench import limits
from bench.cases import CASES, Case
from bench.cases.case import PARTITIONS
from bench.client import Option
from bench.errors import BenchError, MeasurementFailed
from bench.process_stats import cpu_seconds
from bench.results import Measurement, Results
from bench.rows import BY_ID, QUICK_ROWS
from bench.scale import Scale
from bench.systems import KINDS, NAMES, TOWPATH, System

STARTUP = "startup"
LIMITS = "limits"
WARM_UP_REQUESTS_WAITING = 200
"""Few, because Kafka that syncs each of them answers a hundred a second on a busy disk."""

Say = Callable[[str], None]


def rotated(names: Sequence[str], run: int) -> list[str]:
    """The order of the systems in a run: each comes first in turn."""
    shift = run % len(names)
    return [*names[shift:], *names[:shift]]


def wanted_rows(patterns: Sequence[str], *, quick: bool = False) -> set[str]:
    """The ids that match any of the patterns, or begin with it; without one all, or those of a
    quick run. BenchError for a pattern that matches nothing."""
    if not patterns:
        return set(QUICK_ROWS if quick else BY_ID)
    found = set()
    for pattern in patterns:
        matches = {row for row in BY_ID if fnmatch(row, pattern) or row.startswith(pattern + "-")}
        if not matches:
            raise BenchError(f"no row is called {pattern!r}; --list shows them")
        found |= matches
    return found


class Plan:
    """Runs the cases that give the wanted rows and fills the results."""

    def __init__(
        self, rows: set[str], scale: Scale, results: Results, program: Path, say: Say
    ) -> None:
        self._rows = rows
        self._scale = scale
        self._results = results
        self._program = program
        self._say = say
        self._done: list[Path] = []
        """Directories of runs that are over."""
        self._cases = [case for case in CASES if rows.intersection(case.rows)]
        used = {name for case in self._cases for name in case.systems} | {TOWPATH}
        if STARTUP in rows:
            used.add("kafka")
        self._names = [name for name in NAMES if name in used]

    def run(self, run: int, directory: Path) -> None:
        """One run with directories of its own. Call `clean` after the last one."""
        self._check_disk(directory)
        self._done.append(directory)
        with contextlib.ExitStack() as stack:
            systems: dict[str, System] = {}
            for name in rotated([*self._names, LIMITS], run):
                if name == LIMITS:
                    self._measure_limits(run, directory)
                else:
                    systems[name] = self._start(name, run, directory, stack)
            fresh = [case for case in self._cases if case.on_fresh_broker]
            for case in fresh:
                self._measure(case, run, systems)
            if len(fresh) < len(self._cases):
                for system in systems.values():
                    self._warm_up(system)
            for case in self._cases:
                if not case.on_fresh_broker:
                    self._measure(case, run, systems)

    def clean(self) -> None:
        """Remove the brokers' data."""
        while self._done:
            shutil.rmtree(self._done.pop(), ignore_errors=True)

    def _check_disk(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        free_bytes = shutil.disk_usage(directory).free
        if free_bytes < self._scale.disk_free_bytes_min and self._done:
            # Not sooner: ext4 without a journal looks for new inodes among those freed within the
            # last minutes, and that would slow down whoever makes many files.
            self.clean()
            free_bytes = shutil.disk_usage(directory).free
        if free_bytes < self._scale.disk_free_bytes_min:
            needed = self._scale.disk_free_bytes_min // 10**9
            raise BenchError(f"{directory} has {free_bytes // 10**9} GB free, a run needs {needed}")

    def _measure_limits(self, run: int, directory: Path) -> None:
        os.sync()
        self._results.add_limits(run, limits.measure(directory / LIMITS, self._scale.limit_seconds))
        self._say(f"run {run + 1}  limits")

    def _start(self, name: str, run: int, directory: Path, stack: contextlib.ExitStack) -> System:
        """Start a system; the time of the start is a row."""
        system = KINDS[name](directory / name, self._program)
        system.format()
        os.sync()
        stack.callback(system.kill)
        try:
            seconds = system.start()
        except MeasurementFailed as failure:
            raise BenchError(str(failure)) from failure
        self._say(f"run {run + 1}  {name} is up after {seconds:.2f} s")
        if STARTUP in self._rows and name in ("towpath", "kafka"):
            self._results.add(BY_ID[STARTUP], name, run, Measurement(seconds))
        return system

    def _warm_up(self, system: System) -> None:
        """Some work of each kind, so that no case meets a broker that has done nothing yet."""
        topic: dict[str, Option] = {"topic": "warm-up", "partitions": PARTITIONS}
        system.client.run("create", **topic)
        produced = system.client.run(
            "produce",
            **topic,
            record_bytes=1000,
            batch_bytes=16_384,
            warmup_ms=0,
            duration_ms=self._scale.broker_warmup_ms,
        )
        system.client.run("consume", **topic, records=int(produced["records_total"]))
        system.client.run(
            "produce",
            **topic,
            batch_records=1,
            linger_ms=0,
            queue_records=WARM_UP_REQUESTS_WAITING,
            warmup_ms=0,
            duration_ms=self._scale.broker_warmup_ms // 4,
        )

    def _measure(self, case: Case, run: int, systems: dict[str, System]) -> None:
        names = [name for name in rotated(self._names, run) if name in case.systems]
        for name in names:
            os.sync()
            others = [pid for other in systems.values() if other.name != name for pid in other.pids]
            before_s, started = cpu_seconds(others), time.monotonic()
            try:
                systems[name].check_alive()
                found = case.measure(systems[name], self._scale)
            except MeasurementFailed as failure:
                self._results.failures.append(f"run {run + 1}, {case.id}, {name}: {failure}")
                self._say(f"run {run + 1}  {case.id:<32} {name:<12} failed: {_first_line(failure)}")
                continue
            took_s = time.monotonic() - started
            idle_share = (cpu_seconds(others) - before_s) / took_s
            self._keep(case, run, name, found, idle_share)
            self._say(f"run {run + 1}  {case.id:<32} {name:<12} {describe(found)}")

    def _keep(
        self, case: Case, run: int, name: str, found: dict[str, Measurement], idle_share: float
    ) -> None:
        key = f"run {run + 1}, {case.id}, {name}"
        self._results.idle_cpu[key] = round(idle_share, 4)
        for row_id, measured in found.items():
            if row_id in self._rows:
                self._results.add(BY_ID[row_id], name, run, measured)


def _first_line(failure: Exception) -> str:
    return str(failure).partition("\n")[0]


def describe(found: dict[str, Measurement]) -> str:
    """The values of a case in one line."""
    return "  ".join(f"{measured.value:,.4g} {BY_ID[row].unit}" for row, measured in found.items())
