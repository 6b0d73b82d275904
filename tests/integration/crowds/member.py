"""What every member of a crowd does, whichever client library it is.

It processes a record by telling it, and commits now and then. A record is told before its offset is
committed, so that what a crash loses is at most the commit.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any

RECORDS_PER_TURN_MAX = 200
IDLE_S = 0.25
"""How long a member waits for a record before it looks whether something else is due."""
COMMIT_INTERVAL_S = 0.5
COMMIT_TIMEOUT_S = 15.0
"""How long a member that gives partitions up tries to commit: a broker may die meanwhile, and a
member of the consumer protocol may not have heard of its new epoch yet."""
COMMIT_PAUSE_S = 0.1

_telling = threading.Lock()


def tell(kind: str, member: str, *values: Any) -> None:
    """One event for the parent, which has it when this returns: the process may be killed."""
    with _telling:
        sys.stdout.write(json.dumps([kind, member, time.monotonic_ns(), *values]) + "\n")
        sys.stdout.flush()


class CrowdMember(ABC):
    """One consumer, in a thread of its own."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.topic: str = settings["topic"]
        self.settings: dict[str, Any] = settings["client"]
        self._owned: set[int] = set()
        self._done: dict[int, int] = {}
        """Where to go on in each owned partition of which a record was processed."""
        self._committed: dict[int, int] = {}
        """What of it was committed, as far as the broker has answered."""
        self._runs: dict[int, list[int]] = {}
        """First and last offset of what was processed and not told yet, by partition."""
        self._commit_due_s = time.monotonic() + COMMIT_INTERVAL_S
        self.is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Join the group, soon."""
        self._thread.start()

    def leave(self) -> None:
        """Leave the group, soon; what was processed is committed on the way out."""
        self.is_leaving.set()

    def wait_left(self) -> None:
        """Until it has left."""
        self._thread.join()

    def _run(self) -> None:
        self.consume()
        tell("left", self.name)

    @abstractmethod
    def consume(self) -> None:
        """Join, consume until `is_leaving`, and leave."""

    # What happens

    def process(self, partition: int, offset: int) -> None:
        """A record has come."""
        if partition not in self._owned:
            tell("stray", self.name, partition, offset)
        run = self._runs.get(partition)
        if run is not None and offset == run[1] + 1:
            run[1] = offset
        else:
            if run is not None:
                self.tell_processed()
            self._runs[partition] = [offset, offset]
        self._done[partition] = offset + 1

    def tell_processed(self) -> None:
        """Tell what was processed since the last time."""
        for partition, (first, last) in self._runs.items():
            tell("processed", self.name, partition, first, last)
        self._runs = {}

    def given(self, partitions: Iterable[int]) -> None:
        """These partitions are its own from now on."""
        numbers = sorted(partitions)
        self._owned |= set(numbers)
        tell("assigned", self.name, numbers)

    def gave_up(self, partitions: Iterable[int]) -> None:
        """It is through with these, and somebody else may have them."""
        self._drop("revoked", partitions)

    def lost(self, partitions: Iterable[int]) -> None:
        """Somebody else may have had these for a while."""
        self.tell_processed()
        self._drop("lost", partitions)

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that it has."""
        return frozenset(self._owned)

    def _drop(self, how: str, partitions: Iterable[int]) -> None:
        numbers = sorted(partitions)
        self._owned -= set(numbers)
        self._done = {p: o for p, o in self._done.items() if p in self._owned}
        self._committed = {p: o for p, o in self._committed.items() if p in self._owned}
        tell(how, self.name, numbers)

    # Offsets

    def is_commit_due(self) -> bool:
        """Whether it is time to commit again; then the next time is set."""
        if time.monotonic() < self._commit_due_s:
            return False
        self._commit_due_s = time.monotonic() + COMMIT_INTERVAL_S
        return True

    def uncommitted(self) -> dict[int, int]:
        """What was processed and is not committed, by partition."""
        return {p: o for p, o in self._done.items() if self._committed.get(p) != o}

    def note_committed(self, offsets: dict[int, int]) -> None:
        """The broker has these."""
        self._committed |= {p: o for p, o in offsets.items() if p in self._owned}
        tell("committed", self.name, offsets)

    def refused(self, error: str) -> None:
        """Something did not go well."""
        tell("error", self.name, error)


class Outcome(Enum):
    """What became of a commit."""

    DONE = "done"
    TRY_AGAIN = "try again"
    GONE_ON = "gone on"
    """The group has gone on without it; whoever gets the partitions begins before it."""


class BlockingMember(CrowdMember):
    """A member whose library answers when it is done."""

    @abstractmethod
    def commit(self) -> Outcome:
        """Commit what was processed, and wait for the answer: of two commits on their way at once,
        the older one may be the later."""

    def hand_over(self, partitions: Iterable[int]) -> None:
        """Give partitions up, after a commit of everything: somebody else will go on with them."""
        self.tell_processed()
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        while self.uncommitted() and time.monotonic() < deadline_s:
            outcome = self.commit()
            if outcome is Outcome.GONE_ON:
                break
            if outcome is Outcome.TRY_AGAIN:
                time.sleep(COMMIT_PAUSE_S)
        self.gave_up(partitions)
