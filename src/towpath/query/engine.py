"""Queries over topics: each one sees every record that was acknowledged before it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import duckdb

from towpath.objects.worker import WorkerObjects, open_worker_objects
from towpath.query.answer import Answer, Result
from towpath.query.files import Files, LocalFiles
from towpath.query.places import Places
from towpath.query.rows import ROWS_AT_ONCE, UTC, Row, start_arrow_rows, start_rows
from towpath.query.shown_topics import ShownTopics
from towpath.query.statement import QueryFailed, Start, Statement, one_line

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class TopicQueries:
    """A DuckDB connection in which topics are tables. Not safe for several threads."""

    def __init__(self, places: Places) -> None:
        """Of settings, or of a data directory alone. Raises QueryFailed, or ObjectStoreError."""
        path = places.metadata_path()
        if path is None:
            raise QueryFailed("metadata_url memory:// is one broker's own; nothing else sees it")
        if not path.exists():
            raise QueryFailed(f"nothing to query: {path} does not exist")
        objects = _open_objects(places)
        self._connection = duckdb.connect(":memory:")
        self._connection.execute(f"SET TimeZone = '{UTC}'")
        # A topic may be called like a variable of this program, which DuckDB would look at first.
        self._connection.execute("SET python_enable_replacements = false")
        files = _files(places, objects, self._connection)
        self._shown = ShownTopics(self._connection, path, objects, files)
        self._answer: Answer[pa.RecordBatch] | Answer[list[Row]] | None = None
        """DuckDB has one answer open at a time."""

    def close(self) -> None:
        """Release it."""
        self._forget_answer()
        self._connection.close()

    def topics(self) -> list[str]:
        """The topics there are."""
        return self._shown.topics()

    def run(self, sql: str) -> Answer[pa.RecordBatch] | None:
        """The answer of the last statement as record batches; None if it has none. Raises
        QueryFailed."""
        # Takes time to load, and rows do not need it.
        from towpath.query.batches import start_batches

        return self._carry_out(sql, start_batches, start_batches)

    def rows(self, sql: str) -> Answer[list[Row]] | None:
        """The answer of the last statement as Python's values; None if it has none. Raises
        QueryFailed."""
        return self._carry_out(sql, start_rows, start_arrow_rows)

    def _carry_out(
        self, sql: str, select: Start[Result[T]], other: Start[Result[T]]
    ) -> Answer[T] | None:
        """What `select` makes of the last statement if it is a SELECT, or else `other`."""
        self._forget_answer()
        answer: Answer[T] | None = None
        statements = self._parsed(sql)
        for statement in statements:
            self._forget_answer()
            begun = Statement(self._connection, self._shown, statement.query)
            if statement.expected_result_type != [duckdb.ExpectedResultType.QUERY_RESULT]:
                begun.begin(_to_the_end)  # A word of success, or how many rows were changed.
                answer = None
                continue
            # One that nobody reads has to be let go of without undoing what it has changed.
            is_read = statement is statements[-1]
            is_select = is_read and statement.type == duckdb.StatementType.SELECT
            self._answer = answer = Answer(begun, select if is_select else other)
        return answer

    def _parsed(self, sql: str) -> list[duckdb.Statement]:
        try:
            statements: list[duckdb.Statement] = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            raise QueryFailed(one_line(error)) from error
        return statements

    def _forget_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()


def _to_the_end(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    connection.execute(sql)
    while connection.description and connection.fetchmany(ROWS_AT_ONCE):
        pass


def _open_objects(places: Places) -> WorkerObjects:
    try:
        return open_worker_objects(places.objects_url, places.objects_options)
    except ValueError as error:
        raise QueryFailed(f"objects_url: {error}") from error


def _files(places: Places, objects: WorkerObjects, connection: duckdb.DuckDBPyConnection) -> Files:
    root = places.objects_path()
    if root is not None:
        return LocalFiles(root)
    # Half a tenth of a second to load, and files do not need it.
    from towpath.query.service_files import ServiceFiles

    return ServiceFiles(objects, connection)
