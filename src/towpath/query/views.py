"""A topic as a view in DuckDB: its Parquet files, read by DuckDB itself, and its tail as Arrow.

The view is of one moment: what the index said when it was made. Every committed offset is in it
exactly once. Typed columns are read from the files that have them and made of the values of the
others, so a declaration covers all records at once, however far the files have been rewritten.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from towpath.objects.range_file import RangeFile
from towpath.objects.worker import WorkerObjects
from towpath.query.decode import add_decoder, quoted
from towpath.query.files import Files
from towpath.reading.parts import FilePart
from towpath.reading.rows import wal_rows
from towpath.reading.topic import TopicPlan
from towpath.reading.wanted import Wanted
from towpath.records import table
from towpath.typed.columns import TypedColumns
from towpath.typed.names import ERROR
from towpath.typed.table import with_typed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RAW = table.arrow_schema().names
ERRORS_SUFFIX = "__errors"
"""`<topic>__errors` shows the records of a topic that do not fit its declaration."""
ERROR_COLUMNS = (table.PARTITION, table.OFFSET, table.TIMESTAMP, table.KEY, table.VALUE)


def make_view(
    connection: DuckDBPyConnection,
    name: str,
    plan: TopicPlan,
    objects: WorkerObjects,
    files: Files,
    *,
    errors_only: bool = False,
) -> None:
    """Make the topic visible under a name, or with `errors_only` those of its records that do not
    fit, each with the reason. The tail is read at once; raises ObjectNotFound if a part of it is
    gone, and what DuckDB raises if a file is."""
    connection.register(_tail(name), tail_of(plan, objects))
    if plan.typed is not None:
        _drop_decoder(connection, name)
        add_decoder(connection, _decoder(name), plan.typed)
    view = " UNION ALL ".join(
        [f"SELECT * FROM {quoted(_tail(name))}", *_files(name, plan, objects, files)]
    )
    if errors_only:
        columns = f"{_listed(ERROR_COLUMNS)}, {quoted(ERROR)} AS error"
        view = f"SELECT {columns} FROM ({view}) WHERE {quoted(ERROR)} IS NOT NULL"
    for place in _places(connection, name):
        connection.execute(f"CREATE OR REPLACE VIEW {place} AS {view}")


def drop_view(connection: DuckDBPyConnection, name: str) -> None:
    """Forget what `make_view` made."""
    for place in _places(connection, name):
        connection.execute(f"DROP VIEW IF EXISTS {place}")
    connection.unregister(_tail(name))
    _drop_decoder(connection, name)


def _drop_decoder(connection: DuckDBPyConnection, name: str) -> None:
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.remove_function(_decoder(name))


def _places(connection: DuckDBPyConnection, name: str) -> list[str]:
    """Where a topic can be found: `"sales.orders"`, and also `sales.orders`."""
    places = [quoted(name)]
    schema, dot, rest = name.partition(".")
    if dot and schema and rest and "." not in rest:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        places.append(f"{quoted(schema)}.{quoted(rest)}")
    return places


def _tail(name: str) -> str:
    return f"tail of {name}"


def _decoder(name: str) -> str:
    return f"values of {name}"


def tail_of(plan: TopicPlan, objects: WorkerObjects) -> pa.Table:
    """The records that are not in Parquet files yet."""
    batches = [
        batch
        for partition in plan.partitions
        if partition.tail
        for batch in wal_rows(objects, partition.partition, partition.tail, typed=plan.typed)
    ]
    return pa.Table.from_batches(batches, with_typed(table.arrow_schema(), plan.typed))


def _files(name: str, plan: TopicPlan, objects: WorkerObjects, files: Files) -> list[str]:
    """Selects of all files: those with typed columns as they are now, and the others."""
    parts = [part for partition in plan.partitions for part in partition.files]
    if plan.typed is None:
        return _selects(parts, files, _listed(RAW))
    current = [part for part in parts if is_current(plan.typed, part, objects)]
    behind = [part for part in parts if part not in current]
    names = plan.typed.names
    selects = _selects(current, files, f"{_listed(RAW)}, {_listed(names)}")
    made = f"{_listed(RAW)}, {quoted(_decoder(name))}({quoted(table.VALUE)}) AS made"
    columns = ", ".join([_listed(RAW), *(f"made.{quoted(column)}" for column in names)])
    for select in _selects(behind, files, made):
        selects.append(f"SELECT {columns} FROM ({select})")
    return selects


def is_current(typed: TypedColumns, part: FilePart, objects: WorkerObjects) -> bool:
    """Whether the file has the typed columns as they are now. The stamp tells that it has those of
    the declaration; if that left something open, the file itself tells."""
    if part.file.value_stamp != typed.stamp:
        return False
    if not typed.declaration.infers and typed.is_as_declared:
        return True
    # Not needed by most, and not there at once.
    import pyarrow.parquet as pq

    file = part.file
    schema = pq.read_schema(RangeFile(objects, file.path, file.size_bytes))
    return Wanted(typed.names, typed).are_in(part.file.value_stamp, schema)


def _selects(parts: Sequence[FilePart], files: Files, columns: str) -> list[str]:
    """Selects of files: those that are wanted as a whole together, the others by offset."""
    whole = [_literal(files.name(part.file)) for part in parts if part.is_whole]
    selects = [_select(", ".join(whole), columns)] if whole else []
    selects += [_clipped(part, files, columns) for part in parts if not part.is_whole]
    return selects


def _clipped(part: FilePart, files: Files, columns: str) -> str:
    between = f'"{table.OFFSET}" >= {part.start} AND "{table.OFFSET}" < {part.end}'
    return f"{_select(_literal(files.name(part.file)), columns)} WHERE {between}"


def _select(names: str, columns: str) -> str:
    return f"SELECT {columns} FROM read_parquet([{names}], hive_partitioning = false)"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(quoted(column) for column in columns)


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
