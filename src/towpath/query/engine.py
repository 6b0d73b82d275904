"""Queries over topics: each one sees every record that was acknowledged before it began."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from towpath.objects.worker import WorkerObjects, open_worker_objects
from towpath.query.files import Files, LocalFiles
from towpath.query.shown_topics import ShownTopics
from towpath.query.statement import FAILURES, QueryFailed, Statement, one_line

if TYPE_CHECKING:
    from towpath.config import Settings


class Answer:
    """The rows of a query, made while they are read. The next query ends it."""

    def __init__(self, statement: Statement) -> None:
        """Raises QueryFailed."""
        self._statement = statement
        self._batches: pa.RecordBatchReader = statement.begin()

    def close(self) -> None:
        """Whoever has not read all of it does not want the rest."""
        self._batches.close()

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._batches.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches of rows, each row once. Raises QueryFailed."""
        is_begun = False
        while True:
            try:
                for batch in self._batches:
                    is_begun = True
                    yield batch
                return
            except FAILURES as error:
                if is_begun:
                    raise self._statement.explain(error) from error
                self._statement.plan_again(error)
            with contextlib.suppress(pa.ArrowException):
                self._batches.close()
            self._batches = self._statement.begin()


class TopicQueries:
    """A DuckDB connection in which topics are tables. Not safe for several threads."""

    def __init__(self, settings: Settings) -> None:
        """Raises QueryFailed, or ObjectStoreError."""
        path = settings.metadata_path()
        if path is None:
            raise QueryFailed("metadata_url memory:// is one broker's own; nothing else sees it")
        if not path.exists():
            raise QueryFailed(f"nothing to query: {path} does not exist")
        objects = _open_objects(settings)
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        files = _files(settings, objects, self._connection)
        self._shown = ShownTopics(self._connection, path, objects, files)
        self._answer: Answer | None = None
        """DuckDB has one answer open at a time."""

    def close(self) -> None:
        """Release it."""
        self._forget_answer()
        self._connection.close()

    def topics(self) -> list[str]:
        """The topics there are."""
        return self._shown.topics()

    def run(self, sql: str) -> Answer | None:
        """The answer of the last statement; None if it has none. Raises QueryFailed."""
        self._forget_answer()
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            raise QueryFailed(one_line(error)) from error
        for statement in statements:
            self._forget_answer()
            self._answer = Answer(Statement(self._connection, self._shown, statement.query))
            if statement.expected_result_type != [duckdb.ExpectedResultType.QUERY_RESULT]:
                self._forget_answer()  # A word of success, or how many rows were changed.
        return self._answer

    def _forget_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()


def _open_objects(settings: Settings) -> WorkerObjects:
    try:
        return open_worker_objects(settings.objects_url, settings.objects_options)
    except ValueError as error:
        raise QueryFailed(f"objects_url: {error}") from error


def _files(
    settings: Settings, objects: WorkerObjects, connection: duckdb.DuckDBPyConnection
) -> Files:
    root = settings.objects_path()
    if root is not None:
        return LocalFiles(root)
    # Half a tenth of a second to load, and files do not need it.
    from towpath.query.service_files import ServiceFiles

    return ServiceFiles(objects, connection)
