"""The answer of a statement, made while it is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from towpath.query.statement import Start, Statement, failures

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Result(Protocol[T_co]):
    """What DuckDB has open for a statement."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of its columns."""

    def __iter__(self) -> Iterator[T_co]:
        """Its rows, some at a time."""

    def close(self) -> None:
        """Let go of the rows that were not read."""


class Answer(Generic[T]):
    """The rows of a query, some at a time. The next query ends it."""

    def __init__(self, statement: Statement, start: Start[Result[T]]) -> None:
        """Raises QueryFailed."""
        self._statement = statement
        self._start = start
        self._result = statement.begin(start)

    def close(self) -> None:
        """Whoever has not read all of it does not want the rest."""
        self._result.close()

    @property
    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        return self._result.columns

    def __iter__(self) -> Iterator[T]:
        """Some rows after the other, each row once. Raises QueryFailed."""
        is_begun = False
        while True:
            try:
                for rows in self._result:
                    is_begun = True
                    yield rows
                return
            except failures() as error:
                if is_begun:
                    raise self._statement.explain(error) from error
                self._statement.plan_again(error)
            with contextlib.suppress(*failures()):
                self._result.close()
            self._result = self._statement.begin(self._start)
