"""What the parts of the pipeline's benchmark have in common."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.harness.server_process import ServerDied
from tests.integration.harness.waiting import DeadlineExceeded

from bench.compact.results import Results
from bench.compact.rows import BY_ID, TOWPATH
from bench.compact.scale import Scale
from bench.errors import MeasurementFailed
from bench.report.format import number
from bench.results import Measurement

MB, GB, KB = 1e6, 1e9, 1e3

Say = Callable[[str], None]


@dataclass(frozen=True)
class Context:
    """One run: how much is done, where, and what is kept of it."""

    run: int
    directory: Path
    scale: Scale
    program: Path
    """The C client."""
    wanted: frozenset[str]
    """Ids of rows."""
    results: Results
    say: Say

    def wants(self, *rows: str) -> bool:
        """Whether any of the rows is wanted."""
        return not self.wanted.isdisjoint(rows)

    def make_directory(self, name: str) -> Path:
        """A new directory for a part of the run."""
        made = self.directory / name
        made.mkdir(parents=True)
        return made

    def keep(self, row: str, system: str | None, measured: Measurement) -> None:
        """Keep a value of a wanted row; None stands for a peer that the row does not have."""
        if row not in self.wanted or system is None:
            return
        self.results.add(row, system, self.run, measured)
        name = "" if system == TOWPATH else f"  ({system})"
        self.say(
            f"run {self.run + 1}  {row:<28} {number(measured.value):>10} {BY_ID[row].unit}{name}"
        )

    @contextlib.contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Keep what fails in it as a failure; the benchmark goes on. What others left unwritten is
        written to the disk first."""
        os.sync()
        try:
            yield
        except (MeasurementFailed, ServerDied, DeadlineExceeded) as error:
            self.results.failures.append(f"run {self.run + 1}, {what}: {error}")
            self.say(f"run {self.run + 1}  {what} failed: {str(error).splitlines()[0]}")


class Part(ABC):
    """Measurements that belong together, with processes of their own."""

    rows: frozenset[str]
    """The rows it gives."""

    @abstractmethod
    def run(self, context: Context) -> None:
        """Measure what is wanted of it. Whatever it started has ended when it returns."""
