"""What the parts of a suite have in common."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tests.integration.harness.server_process import ServerDied
from tests.integration.harness.waiting import DeadlineExceeded

from bench.errors import MeasurementFailed
from bench.report.format import number
from bench.results import Measurement
from bench.shared.results import Results
from bench.shared.rows import TOWPATH

MB, GB, KB = 1e6, 1e9, 1e3

Say = Callable[[str], None]


class Scale(Protocol):
    """How much a run does; each suite has its own."""

    @property
    def disk_free_bytes_min(self) -> int:
        """What a run needs."""

    def to_json(self) -> dict[str, float]:
        """For the file of results."""


S = TypeVar("S", bound=Scale)


@dataclass(frozen=True)
class Context(Generic[S]):
    """One run: how much is done, where, and what is kept of it."""

    run: int
    directory: Path
    scale: S
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

    def peer_of(self, row: str) -> str | None:
        """What a row is held against."""
        return self.results.rows.by_id[row].peer

    def keep(self, row: str, system: str | None, measured: Measurement) -> None:
        """Keep a value of a wanted row; None stands for a peer that the row does not have."""
        if row not in self.wanted or system is None:
            return
        self.results.add(row, system, self.run, measured)
        name = "" if system == TOWPATH else f"  ({system})"
        unit = self.results.rows.by_id[row].unit
        self.say(f"run {self.run + 1}  {row:<28} {number(measured.value):>10} {unit}{name}")

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


class Part(ABC, Generic[S]):
    """Measurements that belong together, with processes of their own."""

    rows: frozenset[str]
    """The rows it gives."""

    @abstractmethod
    def run(self, context: Context[S]) -> None:
        """Measure what is wanted of it. Whatever it started has ended when it returns."""
