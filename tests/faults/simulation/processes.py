"""Simulated processes: each has a node, a clock and its own ways to the stores, and may be killed,
paused and resumed as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.objects import SimObjects
from tests.faults.simulation.stores import SimStore


@dataclass(slots=True)
class Process:
    """One life of one process."""

    number: int
    node: Node
    clock: SimClock
    store: SimStore
    objects: SimObjects

    @property
    def name(self) -> str:
        """The name of the process, the same in every life."""
        return self.node.name

    def reconnect(self) -> None:
        """End every partition between the process and the stores."""
        self.store.line.cut_until_s = self.objects.line.cut_until_s = 0.0


P = TypeVar("P", bound=Process)


class Processes(Generic[P]):
    """All processes of one kind, by their number."""

    def __init__(self, loop: SimLoop, journal: Journal) -> None:
        self._loop = loop
        self._journal = journal
        self._lives = 0
        self._resumes_at_s = 0.0
        self.present: dict[int, P] = {}
        """The present life of each process that was started."""
        self._graveyard: list[P] = []
        """Dead lives are kept: what they hold must not be collected while the run goes on."""

    def every_life(self) -> list[P]:
        """All that ever lived, in no order that means anything."""
        return [*self._graveyard, *(one for one in self.present.values() if not one.node.dead)]

    def alive(self) -> list[P]:
        """Processes that exist, by number; they may be paused or still starting."""
        return [one for _, one in sorted(self.present.items()) if not one.node.dead]

    def kill(self, process: P) -> None:
        """End a life at once: nothing of it runs again."""
        if process.node.dead:
            return
        self._journal.note(f"kill {process.name}")
        process.node.dead = True
        process.store.crash()
        self._graveyard.append(process)

    def pause(self, process: P, seconds: float) -> None:
        """Stop a process for a time; it does not notice."""
        if process.node.paused or process.node.dead:
            return
        process.node.paused = True
        self.resume_later(process, seconds)

    def resume_later(self, process: P, seconds: float) -> None:
        """Let a process that is paused go on after a time."""
        self._journal.note(f"pause {process.name} for {seconds:.3f} s")
        self._resumes_at_s = max(self._resumes_at_s, self._loop.time() + seconds)
        self._loop.call_later(seconds, self.resume, process)

    def paused_for_s(self) -> float:
        """How long it takes until every pause is over."""
        return max(0.0, self._resumes_at_s - self._loop.time())

    def resume(self, process: P) -> None:
        """Let a paused process go on."""
        if process.node.paused and not process.node.dead:
            self._journal.note(f"resume {process.name}")
            self._loop.resume(process.node)
