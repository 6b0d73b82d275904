"""What the members of a crowd told, and what must be true of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OPEN_NS = 1 << 63
"""The end of what has not ended yet."""


@dataclass
class Ownership:
    """One member had one partition from `start_ns` to `end_ns`."""

    member: str
    start_ns: int
    end_ns: int = OPEN_NS
    end: str = ""
    """`revoked`, `lost` or `crashed`; empty while it lasts."""


class Books:
    """The events of all members. Threads write, the test reads."""

    def __init__(self, *, may_report_late: bool = False) -> None:
        """`may_report_late`: librdkafka's members of the consumer protocol, when they join, may say
        that they have nothing in the very moment in which they take what they were told to take. A
        broker, Kafka's too, must believe them, and gives it to others before they give it back. So
        two may have a partition for a moment, but not both work on it."""
        self._may_report_late = may_report_late
        self._lock = threading.Lock()
        self._owned: dict[int, list[Ownership]] = {}
        self._processed: dict[int, set[int]] = {}
        self._work: dict[tuple[int, str], list[int]] = {}
        """When each member has processed records of each partition."""
        self._strays: list[str] = []
        self._committed: dict[int, int] = {}
        self.errors: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.left: set[str] = set()

    def note(self, event: list[Any]) -> None:
        """Take an event of `crowd_child.py` in."""
        kind, member, at_ns, *values = event
        with self._lock:
            if kind == "assigned":
                for partition in values[0]:
                    self._owned.setdefault(partition, []).append(Ownership(member, at_ns))
            elif kind in ("revoked", "lost"):
                self._end(member, at_ns, kind, values[0])
            elif kind == "processed":
                partition, first, last = values
                self._processed.setdefault(partition, set()).update(range(first, last + 1))
                self._work.setdefault((partition, member), []).append(at_ns)
            elif kind == "stray":
                self._strays.append(f"{member} processed {values}, which was not its own")
            elif kind == "error":
                self.errors[values[0]] += 1
            elif kind == "left":
                self.left.add(member)
            elif kind == "committed":
                for partition, offset in values[0].items():
                    known = self._committed.get(int(partition), 0)
                    self._committed[int(partition)] = max(known, offset)

    def crashed(self, members: Iterable[str], at_ns: int) -> None:
        """These members were killed, and everything they told has been read."""
        with self._lock:
            for member in members:
                self._end(member, at_ns, "crashed", list(self._owned))

    def _end(self, member: str, at_ns: int, how: str, partitions: list[int]) -> None:
        for partition in partitions:
            for ownership in self._owned.get(partition, []):
                if ownership.member == member and ownership.end_ns == OPEN_NS:
                    ownership.end_ns, ownership.end = at_ns, how
                    if how == "lost":
                        self.lost[member] += 1

    def owners(self) -> dict[int, list[str]]:
        """Who has what now."""
        with self._lock:
            return {
                partition: [o.member for o in owned if o.end_ns == OPEN_NS]
                for partition, owned in self._owned.items()
            }

    def missing(self, written: dict[int, set[int]]) -> dict[int, int]:
        """How many records nobody has processed, by partition."""
        with self._lock:
            left = {p: len(o - self._processed.get(p, set())) for p, o in written.items()}
        return {partition: count for partition, count in left.items() if count}

    def committed(self) -> dict[int, int]:
        """The highest offset of each partition whose commit was acknowledged."""
        with self._lock:
            return dict(self._committed)

    def problems(self) -> list[str]:
        """Records processed by somebody who did not own them, and partitions that two members had
        (or, where that may be, worked on) at once though neither had been put out of the group."""
        with self._lock:
            found = list(self._strays)
            for partition, owned in self._owned.items():
                found += [
                    f"partition {partition}: {one} and {other}"
                    for one in owned
                    for other in owned
                    if _overlap(one, other) and self._matters(partition, one, other)
                ]
        return found

    def _matters(self, partition: int, earlier: Ownership, later: Ownership) -> bool:
        """Whether it is wrong that the one still had the partition when the other got it."""
        if not self._may_report_late:
            return True
        work_ns = self._work.get((partition, earlier.member), [])
        return any(later.start_ns <= at_ns < earlier.end_ns for at_ns in work_ns)


def _overlap(earlier: Ownership, later: Ownership) -> bool:
    """Whether `later` began before `earlier`, which was in the same generation, ended. A member
    that lost its partitions had been put out before: the later one is of another generation."""
    return (
        earlier is not later
        and earlier.start_ns <= later.start_ns < earlier.end_ns
        and earlier.end != "lost"
    )
