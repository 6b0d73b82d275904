"""Queries over topics: each one sees every record that was acknowledged before it began."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from towpath.errors import TowpathError
from towpath.objects.store import ObjectNotFound
from towpath.objects.worker import WorkerObjects, open_worker_objects
from towpath.query.views import drop_view, make_view
from towpath.reading.index import IndexReader, at_one_moment
from towpath.reading.topic import TopicPlan, plan_topic

if TYPE_CHECKING:
    from towpath.config import Settings

BATCH_ROWS = 10_000
"""Rows that an answer hands over at once."""
PLANS_MAX = 3
"""A WAL object may be compacted and deleted between the plan and its reading: then the index tells
where its records are now."""
TOPICS_MAX = 100
"""Topics that one statement may name."""
_MISSING = re.compile(r'Table with name "?(?P<name>.+?)"? does not exist')


class QueryFailed(TowpathError):
    """The query is wrong, or could not be carried out; says why."""


class Answer:
    """The rows of a query, made while they are read. The next query ends it."""

    def __init__(self, batches: pa.RecordBatchReader) -> None:
        self._batches = batches

    def close(self) -> None:
        """Whoever has not read all of it does not want the rest."""
        self._batches.close()

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._batches.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of rows. Raises QueryFailed."""
        try:
            yield from self._batches
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise QueryFailed(_one_line(error)) from error


class TopicQueries:
    """A DuckDB connection in which topics are tables. Not safe for several threads."""

    def __init__(self, settings: Settings) -> None:
        path = settings.metadata_path()
        if path is None:
            raise QueryFailed("metadata_url memory:// is one broker's own; nothing else sees it")
        root = settings.objects_path()
        if root is None:
            raise QueryFailed(f"objects_url {settings.objects_url}: only files can be queried yet")
        if not path.exists():
            raise QueryFailed(f"nothing to query: {path} does not exist")
        self._metadata = path
        self._root = root
        self._objects: WorkerObjects = open_worker_objects(settings.objects_url)
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._shown: list[str] = []
        self._answer: Answer | None = None
        """DuckDB has one answer open at a time."""

    def close(self) -> None:
        """Release it."""
        self._forget_answer()
        self._connection.close()

    def topics(self) -> list[str]:
        """The topics there are."""
        return at_one_moment(self._metadata, IndexReader.topic_names)

    def run(self, sql: str) -> Answer | None:
        """The answer of the last statement; None if it has none. Raises QueryFailed."""
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            raise QueryFailed(_one_line(error)) from error
        for statement in statements:
            self._forget_answer()
            self._answer = self._run_one(statement.query)
            if statement.expected_result_type != [duckdb.ExpectedResultType.QUERY_RESULT]:
                self._forget_answer()  # A word of success, or how many rows were changed.
        return self._answer

    def _forget_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def _run_one(self, sql: str) -> Answer:
        """Run a statement. DuckDB tells which names it does not know; those that are topics become
        views, all of the same moment, and it is asked again."""
        self._show([])
        names: list[str] = []
        while True:
            try:
                return Answer(self._connection.sql(sql).to_arrow_reader(BATCH_ROWS))
            except duckdb.CatalogException as error:
                missing = _MISSING.search(str(error))
                if missing is None or missing["name"] in names or len(names) >= TOPICS_MAX:
                    raise QueryFailed(_one_line(error)) from error
                names.append(missing["name"])
                if not self._show(names):
                    raise QueryFailed(_unknown(missing["name"], self.topics())) from error
            except duckdb.Error as error:
                raise QueryFailed(_one_line(error)) from error

    def _show(self, names: Sequence[str]) -> bool:
        """Make views of these names, instead of those of the last statement; False if one is no
        topic."""

        def plan(reader: IndexReader) -> list[tuple[str, TopicPlan]] | None:
            known = reader.topic_names()
            topics = [_topic_of(name, known) for name in names]
            if None in topics:
                return None
            found = zip(names, topics, strict=True)
            return [(name, plan_topic(reader, topic)) for name, topic in found if topic is not None]

        for plans_left in reversed(range(PLANS_MAX)):
            plans = at_one_moment(self._metadata, plan) if names else []
            try:
                self._make_views(plans or [])
                break
            except ObjectNotFound as error:
                if not plans_left:
                    raise QueryFailed(f"{error} is gone, and the index still names it") from error
        return plans is not None

    def _make_views(self, plans: Sequence[tuple[str, TopicPlan]]) -> None:
        """Make these views, and forget all others."""
        for name in self._shown:
            drop_view(self._connection, name)
        self._shown = []
        for name, found in plans:
            self._shown.append(name)
            make_view(self._connection, name, found, self._objects, self._file_name)

    def _file_name(self, path: str) -> str:
        return str(Path(self._root) / path)


def _topic_of(name: str, topics: Sequence[str]) -> str | None:
    """The topic that a query means: SQL does not tell upper from lower case, Kafka does."""
    if name in topics:
        return name
    similar = [topic for topic in topics if topic.casefold() == name.casefold()]
    return similar[0] if len(similar) == 1 else None


def _unknown(name: str, topics: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, topics, n=1)
    return f"there is no topic {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _one_line(error: Exception) -> str:
    """DuckDB's message without the drawing of where it is."""
    return re.sub(r"\s+", " ", str(error).split("\n\nLINE", 1)[0]).strip()
