"""What a round of the pipeline tells of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from towpath.lakehouse.plan import Job
from towpath.lakehouse.runners.runner import Progress


@dataclass(slots=True)
class TopicSummary:
    """What a round did for one topic."""

    tasks: int = 0
    records: int = 0
    files: int = 0
    input_bytes: int = 0
    file_bytes: int = 0
    snapshot_id: int | None = None


@dataclass(slots=True)
class RoundSummary:
    """What a round did."""

    topics: dict[str, TopicSummary] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    more: bool = False
    """Whether something was due that the round left for the next one."""

    @property
    def tasks(self) -> int:
        return sum(topic.tasks for topic in self.topics.values())

    def of(self, topic: str) -> TopicSummary:
        """The topic's part, made when it is first asked for."""
        return self.topics.setdefault(topic, TopicSummary())


class RoundWatcher(Progress, Protocol):
    """Who is told how a round goes."""

    def planned(self, jobs: Sequence[Job]) -> None:
        """These jobs will be run."""
        ...
