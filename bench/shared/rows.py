"""The rows of a suite: each with its unit, what it is held against, and its goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property

from bench.errors import BenchError
from bench.goals import Goal
from bench.shared.bounds import Bound

TOWPATH = "towpath"
KAFKA_SPARK = "kafka + spark"
"""What a user would run otherwise: Apache Kafka and what Spark has for it, as they come."""
TUNED_SPARK = "kafka + spark, tuned"
"""The same with the fastest settings that were found."""
MAX_AGE = "compaction.wal.max.age"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    id: str
    title: str
    unit: str
    higher_is_better: bool
    peer: str | None = None
    """What else was measured in the same run, to which the row is a ratio."""

    goals: tuple[Goal | Bound, ...] = ()


@dataclass(frozen=True)
class Rows:
    """All rows of a suite, in the order of its table."""

    suite: str
    all: tuple[Row, ...]
    not_quick: frozenset[str] = frozenset()
    """Ids of those that a quick run leaves out."""

    @cached_property
    def by_id(self) -> dict[str, Row]:
        """Each row by its id."""
        return {row.id: row for row in self.all}

    def wanted(self, patterns: Sequence[str], *, quick: bool = False) -> set[str]:
        """The ids that match any of the patterns, or begin with it; without one all, or those of a
        quick run. BenchError for a pattern that matches nothing."""
        if not patterns:
            return set(self.by_id) - (self.not_quick if quick else frozenset())
        found = set()
        for pattern in patterns:
            matches = {
                row for row in self.by_id if fnmatch(row, pattern) or row.startswith(pattern + "-")
            }
            if not matches:
                raise BenchError(f"no row of {self.suite} is called {pattern!r}; --list shows them")
            found |= matches
        return found
