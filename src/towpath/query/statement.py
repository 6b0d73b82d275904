"""One statement over topics, carried out until what it reads stays where it is.

A file or a WAL object may be replaced and deleted between the plan and its reading. Then the index
tells where its records are now: the statement is planned again and run again from its beginning,
which is only possible while nothing of its answer was handed out.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import duckdb

from towpath.errors import BatchError, LogError, TowpathError
from towpath.metadata.store import MetadataError
from towpath.objects.store import ObjectNotFound, ObjectStoreError
from towpath.query.shown_topics import NothingDeclared, ShownTopics

PLANS_MAX = 3
"""How often a statement is planned because objects of its plan were gone."""
TOPICS_MAX = 100
"""Topics that one statement may name."""
_MISSING = re.compile(r'Table with name "?(?P<name>.+?)"? does not exist')

T = TypeVar("T")
Start = Callable[[duckdb.DuckDBPyConnection, str], T]
"""Begins to carry out a statement: as far as its first rows, or to its end if it has none."""


class QueryFailed(TowpathError):
    """The query is wrong, or could not be carried out; says why."""


class Statement:
    """A statement and the topics that it turned out to name."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, topics: ShownTopics, sql: str
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._sql = sql
        self._names: list[str] = []
        self._plans_left = PLANS_MAX

    def begin(self, start: Start[T]) -> T:
        """Carry it out as far as its first rows; what `start` answers. DuckDB tells which names it
        does not know; those that are topics become views, all of the same moment, and it is asked
        again. Raises QueryFailed."""
        # In a transaction that has failed nothing can be dropped, but it can be rolled back.
        with contextlib.suppress(duckdb.TransactionException):
            self._topics.forget()
        while True:
            try:
                self._show()
                return start(self._connection, self._sql)
            except duckdb.CatalogException as error:
                self._learn_name(error)
            except failures() as error:
                self.plan_again(error)

    def plan_again(self, error: Exception) -> None:
        """After a failure before any rows were handed out: returns if another `begin` may do
        better. Raises QueryFailed if not."""
        cause = self._cause(error)
        if not isinstance(cause, ObjectNotFound):
            raise QueryFailed(one_line(cause)) from error
        self._plans_left -= 1
        if self._plans_left > 0:
            return
        if self._topics.is_named(self._names, cause.path):
            raise QueryFailed(f"{cause.path} is gone, and the index still names it") from error
        raise QueryFailed(
            f"what the query reads was replaced {PLANS_MAX} times before it could be read; "
            "run it again"
        ) from error

    def explain(self, error: Exception) -> QueryFailed:
        """A failure after some rows were handed out: nothing can be done about it."""
        cause = self._cause(error)
        if isinstance(cause, ObjectNotFound):
            return QueryFailed(
                f"{cause.path} was replaced while the answer was being read; this is a part of it "
                "only: run the query again"
            )
        return QueryFailed(one_line(cause))

    def _show(self) -> None:
        if self._names and not self._topics.show(self._names):
            raise QueryFailed(_unknown(self._names[-1], self._topics.topics()))

    def _learn_name(self, error: duckdb.CatalogException) -> None:
        missing = _MISSING.search(str(error))
        if missing is None or missing["name"] in self._names or len(self._names) >= TOPICS_MAX:
            raise QueryFailed(one_line(error)) from error
        self._names.append(missing["name"])

    def _cause(self, error: Exception) -> Exception:
        """What is behind an error of DuckDB's, which only has the text of others."""
        is_duckdbs = isinstance(error, (duckdb.Error, OSError, *_failures_of_arrow()))
        return (self._topics.failure() if is_duckdbs else None) or error


def failures() -> tuple[type[Exception], ...]:
    """What carrying out a statement may raise. Ask when something was raised: what nobody has
    loaded has raised nothing."""
    return (
        duckdb.Error,
        ObjectStoreError,
        MetadataError,
        LogError,
        BatchError,
        NothingDeclared,
        OSError,
        *_failures_of_arrow(),
    )


def _failures_of_arrow() -> tuple[type[Exception], ...]:
    arrow = sys.modules.get("pyarrow")
    return () if arrow is None else (arrow.ArrowException,)


def _unknown(name: str, topics: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, topics, n=1)
    return f"there is no topic {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def one_line(error: Exception) -> str:
    """An error's message; DuckDB's without the drawing of where it is."""
    return re.sub(r"\s+", " ", str(error).split("\n\nLINE", 1)[0]).strip()
