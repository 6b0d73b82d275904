"""The topics that a statement names, as views in DuckDB, all of the same moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from towpath.errors import TowpathError
from towpath.log.object.stretches import DataFile
from towpath.objects.store import ObjectStoreError
from towpath.objects.worker import WorkerObjects
from towpath.query.files import Files
from towpath.query.views import ERRORS_SUFFIX, drop_view, make_view
from towpath.reading.index import IndexReader, at_one_moment
from towpath.reading.parts import FilePart, Part
from towpath.reading.topic import TopicPlan, plan_topic

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Shown(NamedTuple):
    """What a name of a statement stands for."""

    name: str
    plan: TopicPlan
    errors_only: bool
    """Only the records that do not fit what the topic declares."""


class NothingDeclared(TowpathError):
    """A topic's wrong records were asked for, and it does not say what is right."""


class ShownTopics:
    """The views of one statement at a time. Not safe for several threads."""

    def __init__(
        self, connection: DuckDBPyConnection, metadata: Path, objects: WorkerObjects, files: Files
    ) -> None:
        self._connection = connection
        self._metadata = metadata
        self._objects = objects
        self._files = files
        self._names: list[str] = []
        self._plans: list[Shown] = []

    def topics(self) -> list[str]:
        """The topics there are."""
        return at_one_moment(self._metadata, IndexReader.topic_names)

    def show(self, names: Sequence[str]) -> bool:
        """Make views of these names, and forget all others; False if one is no topic. Raises
        NothingDeclared, and ObjectStoreError or what DuckDB raises if a part of a topic cannot be
        read."""
        self.forget()
        plans = self._plan(names)
        if plans is None:
            return False
        self._plans = plans
        for name, plan, errors_only in plans:
            if errors_only and plan.typed is None:
                raise NothingDeclared(_nothing_declared(plan.topic))
            self._names.append(name)
            make_view(
                self._connection, name, plan, self._objects, self._files, errors_only=errors_only
            )
        return True

    def forget(self) -> None:
        """Remove every view. What DuckDB does not let go of is removed the next time."""
        while self._names:
            drop_view(self._connection, self._names[-1])
            self._names.pop()
        self._plans = []
        self._files.forget()

    def failure(self) -> ObjectStoreError | None:
        """Why a file that is shown cannot be read; ObjectNotFound if it is gone."""
        return self._files.failure(self._shown_files())

    def is_named(self, names: Sequence[str], path: str) -> bool:
        """Whether the index, as it is now, says that records of these topics lie in this object."""
        plans = self._plan(names) or []
        return any(_path(part) == path for shown in plans for part in _parts(shown.plan))

    def _plan(self, names: Sequence[str]) -> list[Shown] | None:
        def plan(reader: IndexReader) -> list[Shown] | None:
            known = reader.topic_names()
            found = [(name, *_meant(name, known)) for name in names]
            if any(topic is None for _, topic, _ in found):
                return None
            return [
                Shown(name, plan_topic(reader, topic), errors_only)
                for name, topic, errors_only in found
                if topic is not None
            ]

        return at_one_moment(self._metadata, plan) if names else []

    def _shown_files(self) -> Iterator[DataFile]:
        for shown in self._plans:
            for partition in shown.plan.partitions:
                yield from (part.file for part in partition.files)


def _nothing_declared(topic: str) -> str:
    # Takes time to load, and most queries do well.
    from towpath.typed.declaration import FORMAT

    return (
        f"topic {topic!r} does not declare what its values are ({FORMAT}), so none of them is wrong"
    )


def _parts(plan: TopicPlan) -> Iterator[Part]:
    for partition in plan.partitions:
        yield from partition.parts


def _path(part: Part) -> str:
    return part.file.path if isinstance(part, FilePart) else part.chunk.path


def _meant(name: str, topics: Sequence[str]) -> tuple[str | None, bool]:
    """The topic that a name means, and whether it means its records that do not fit only."""
    topic = _topic_of(name, topics)
    if topic is None and name.casefold().endswith(ERRORS_SUFFIX):
        return _topic_of(name[: -len(ERRORS_SUFFIX)], topics), True
    return topic, False


def _topic_of(name: str, topics: Sequence[str]) -> str | None:
    """The topic that a query means: SQL does not tell upper from lower case, Kafka does."""
    if name in topics:
        return name
    similar = [topic for topic in topics if topic.casefold() == name.casefold()]
    return similar[0] if len(similar) == 1 else None
