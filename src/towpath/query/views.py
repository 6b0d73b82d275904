"""A topic as a view in DuckDB: its Parquet files, read by DuckDB itself, and its tail.

The view is of one moment: what the index said when it was made. Every committed offset is in it
exactly once. Typed columns are read from the files that have them and made of the values of the
others, so a declaration covers all records at once, however far the files have been rewritten.

Arrow, and what decodes records, take longer to load than most queries take. So a topic that has
all its records in files, with all their columns, is shown without them, and a few records of a tail
without Arrow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb

from towpath.objects.worker import WorkerObjects
from towpath.query.few_tail import drop_table, is_few, make_table
from towpath.query.files import Files
from towpath.query.sql_types import RAW, listed, literal, quoted, sql_type
from towpath.reading.parts import FilePart
from towpath.reading.topic import TopicPlan
from towpath.records import column_names as names
from towpath.typed.names import ERROR

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from towpath.typed.columns import TypedColumns

ERRORS_SUFFIX = "__errors"
"""`<topic>__errors` shows the records of a topic that do not fit its declaration."""
ERROR_COLUMNS = (names.PARTITION, names.OFFSET, names.TIMESTAMP, names.KEY, names.VALUE)


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
    parts = [
        *_tail_select(connection, name, plan, objects),
        *_file_selects(connection, name, plan, objects, files),
    ]
    view = " UNION ALL ".join(parts or [_nothing(plan)])
    if errors_only:
        columns = f"{listed(ERROR_COLUMNS)}, {quoted(ERROR)} AS error"
        view = f"SELECT {columns} FROM ({view}) WHERE {quoted(ERROR)} IS NOT NULL"
    for place in _places(connection, name):
        connection.execute(f"CREATE OR REPLACE VIEW {place} AS {view}")


def drop_view(connection: DuckDBPyConnection, name: str) -> None:
    """Forget what `make_view` made."""
    for place in _places(connection, name):
        connection.execute(f"DROP VIEW IF EXISTS {place}")
    connection.unregister(_tail(name))
    drop_table(connection, _few(name))
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


def _few(name: str) -> str:
    return f"few of {name}"


def _decoder(name: str) -> str:
    return f"values of {name}"


def _tail_select(
    connection: DuckDBPyConnection, name: str, plan: TopicPlan, objects: WorkerObjects
) -> list[str]:
    """A select of the records that are not in Parquet files yet, if there are any."""
    if not any(partition.tail for partition in plan.partitions):
        return []
    if is_few(plan):
        make_table(connection, _few(name), plan, objects)
        return [f"SELECT * FROM {quoted(_few(name))}"]
    connection.register(_tail(name), tail_of(plan, objects))
    return [f"SELECT * FROM {quoted(_tail(name))}"]


def tail_of(plan: TopicPlan, objects: WorkerObjects) -> pa.Table:
    """The records that are not in Parquet files yet."""
    # Loaded where there is something to decode.
    import pyarrow as pa

    from towpath.reading.rows import wal_rows
    from towpath.records import table
    from towpath.typed.table import with_typed

    batches = [
        batch
        for partition in plan.partitions
        if partition.tail
        for batch in wal_rows(objects, partition.partition, partition.tail, typed=plan.typed)
    ]
    return pa.Table.from_batches(batches, with_typed(table.arrow_schema(), plan.typed))


def _file_selects(
    connection: DuckDBPyConnection,
    name: str,
    plan: TopicPlan,
    objects: WorkerObjects,
    files: Files,
) -> list[str]:
    """Selects of all files: those with typed columns as they are now, and the others."""
    parts = [part for partition in plan.partitions for part in partition.files]
    if plan.typed is None:
        return _selects(parts, files, listed(RAW))
    typed = plan.typed
    current = [part for part in parts if is_current(typed, part, objects)]
    selects = _selects(current, files, listed([*RAW, *typed.names]))
    behind = [part for part in parts if part not in current]
    if not behind:
        return selects
    # Loaded where there is something to decode.
    from towpath.query.decode import add_decoder

    _drop_decoder(connection, name)
    add_decoder(connection, _decoder(name), typed)
    made = f"{listed(RAW)}, {quoted(_decoder(name))}({quoted(names.VALUE)}) AS made"
    columns = ", ".join([listed(RAW), *(f"made.{quoted(column)}" for column in typed.names)])
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

    from towpath.objects.range_file import RangeFile
    from towpath.reading.wanted import Wanted

    file = part.file
    schema = pq.read_schema(RangeFile(objects, file.path, file.size_bytes))
    return Wanted(typed.names, typed).are_in(part.file.value_stamp, schema)


def _selects(parts: Sequence[FilePart], files: Files, columns: str) -> list[str]:
    """Selects of files: those that are wanted as a whole together, the others by offset."""
    whole = [literal(files.name(part.file)) for part in parts if part.is_whole]
    selects = [_select(", ".join(whole), columns)] if whole else []
    selects += [_clipped(part, files, columns) for part in parts if not part.is_whole]
    return selects


def _clipped(part: FilePart, files: Files, columns: str) -> str:
    between = f'"{names.OFFSET}" >= {part.start} AND "{names.OFFSET}" < {part.end}'
    return f"{_select(literal(files.name(part.file)), columns)} WHERE {between}"


def _select(file_names: str, columns: str) -> str:
    return f"SELECT {columns} FROM read_parquet([{file_names}], hive_partitioning = false)"


def _nothing(plan: TopicPlan) -> str:
    """A select of a topic's columns without a record."""
    types = dict(RAW)
    if plan.typed is not None:
        types |= {field.name: sql_type(field.type) for field in plan.typed.all_fields}
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in types.items())
    return f"SELECT {columns} WHERE false"
