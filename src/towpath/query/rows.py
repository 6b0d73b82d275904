"""Answers as tuples of Python's values, as Arrow has them, and if possible without loading it.

DuckDB hands out most types as the same values as Arrow does, while it makes them. Of the others
some can be made the same; a statement with any of the rest in its answer goes through Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import duckdb
from duckdb.sqltypes import DuckDBPyType

from towpath.query.statement import QueryFailed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from towpath.query.answer import Result
    from towpath.query.batches import Batches

Row = tuple[Any, ...]
MOMENT: Final = "timestamp with time zone"
UTC: Final = "UTC"
"""The time zone that a connection begins with."""

ROWS_AT_ONCE = 10_000
"""Rows that are Python's values at a time."""
SAME: Final = frozenset(
    {
        "bigint", "blob", "boolean", "date", "decimal", "double", "enum", "float", "integer",
        "null", "smallint", "timestamp", MOMENT, "timestamp_ms", "timestamp_ns", "timestamp_s",
        "tinyint", "ubigint", "uinteger", "usmallint", "utinyint", "varchar",
    }
)  # fmt: skip
"""Types with the same values either way. Where Python has no such date Arrow fails, and DuckDB has
its text, or for an infinite one the first or last date there is."""
NESTED: Final = frozenset({"array", "list", "struct"})
"""Types that have the same values if what they consist of has."""
MADE_SAME: Final[Mapping[str, Callable[[Any], Any]]] = {"hugeint": Decimal, "uuid": str}
"""What makes the values of a column the same."""


class NativeRows:
    """An open result as DuckDB itself gives it to Python. The connection has one at a time."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection
        self._is_open = True
        self.columns = [column[0] for column in connection.description]
        self._made = {
            at: MADE_SAME[column[1].id]
            for at, column in enumerate(connection.description)
            if column[1].id in MADE_SAME
        }

    def __iter__(self) -> Iterator[list[Row]]:
        while rows := self._fetch():
            yield [self._same(row) for row in rows] if self._made else rows

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._connection.abort()

    def _fetch(self) -> list[Row]:
        if not self._is_open:
            # The connection may have the rows of another one by now.
            raise QueryFailed("the answer was closed before it was read to its end")
        rows: list[Row] = self._connection.fetchmany(ROWS_AT_ONCE)
        return rows

    def _same(self, row: Row) -> Row:
        values = list(row)
        for at, make in self._made.items():
            if values[at] is not None:
                values[at] = make(values[at])
        return tuple(values)


class ArrowRows:
    """An open result by way of Arrow."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.columns = batches.columns

    def __iter__(self) -> Iterator[list[Row]]:
        for batch in self._batches:
            yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def close(self) -> None:
        self._batches.close()


def start_rows(connection: DuckDBPyConnection, sql: str) -> Result[list[Row]]:
    """Begin a SELECT whose rows are wanted as Python's values."""
    if _are_native(connection, sql):
        return NativeRows(connection.execute(sql))
    return start_arrow_rows(connection, sql)


def start_arrow_rows(connection: DuckDBPyConnection, sql: str) -> Result[list[Row]]:
    """Begin any other statement whose rows are wanted as Python's values."""
    # Takes time to load.
    from towpath.query.batches import start_batches

    return ArrowRows(start_batches(connection, sql))


def _are_native(connection: DuckDBPyConnection, sql: str) -> bool:
    """Whether all columns of a SELECT can be had without Arrow. It is not carried out for that."""
    try:
        # What is wrong with a relation does not end a transaction.
        described = connection.sql(f"DESCRIBE {sql}").fetchall()
        kinds = [connection.type(kind) for _, kind, *_ in described]
        same = SAME if _is_utc(connection) else SAME - {MOMENT}
    except duckdb.CatalogException:
        raise  # A name that may be a topic's.
    except duckdb.Error:
        return False  # What is wrong with it is told when it is carried out.
    return all(kind.id in MADE_SAME or _is_same(kind, same) for kind in kinds)


def _is_same(kind: DuckDBPyType, same: frozenset[str]) -> bool:
    if kind.id not in NESTED:
        return kind.id in same
    # An array also tells its size here.
    parts = (child for _, child in kind.children if isinstance(child, DuckDBPyType))
    return all(_is_same(part, same) for part in parts)


def _is_utc(connection: DuckDBPyConnection) -> bool:
    """Whether no time zone was set; those of long ago are not the same either way."""
    ((zone,),) = connection.execute("SELECT current_setting('TimeZone')").fetchall()
    return bool(zone == UTC)
