"""A topic as a view in DuckDB: its Parquet files, read by DuckDB itself, and its tail as Arrow.

The view is of one moment: what the index said when it was made. Every committed offset is in it
exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.objects.worker import WorkerObjects
from towpath.query.files import Files
from towpath.reading.parts import FilePart, PartitionPlan
from towpath.reading.rows import wal_rows
from towpath.reading.topic import TopicPlan
from towpath.records import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = ", ".join(f'"{name}"' for name in table.arrow_schema().names)


def make_view(
    connection: DuckDBPyConnection,
    name: str,
    plan: TopicPlan,
    objects: WorkerObjects,
    files: Files,
) -> None:
    """Make the topic visible under a name. The tail is read at once; raises ObjectNotFound if a
    part of it is gone, and what DuckDB raises if a file is."""
    connection.register(_tail(name), tail_of(plan.partitions, objects))
    selects = [f"SELECT {COLUMNS} FROM {quoted(_tail(name))}", *_files(plan.partitions, files)]
    view = " UNION ALL ".join(selects)
    for place in _places(connection, name):
        connection.execute(f"CREATE OR REPLACE VIEW {place} AS {view}")


def drop_view(connection: DuckDBPyConnection, name: str) -> None:
    """Forget what `make_view` made."""
    for place in _places(connection, name):
        connection.execute(f"DROP VIEW IF EXISTS {place}")
    connection.unregister(_tail(name))


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


def tail_of(partitions: Iterable[PartitionPlan], objects: WorkerObjects) -> pa.Table:
    """The records that are not in Parquet files yet."""
    schema = table.arrow_schema()
    batches = [
        batch
        for plan in partitions
        if plan.tail
        for batch in wal_rows(objects, plan.partition, plan.tail)
    ]
    return pa.Table.from_batches(batches, schema)


def quoted(name: str) -> str:
    """A name as SQL has it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _files(partitions: Iterable[PartitionPlan], files: Files) -> list[str]:
    """Selects of all files: those that are wanted as a whole together, the others by offset."""
    parts = [part for plan in partitions for part in plan.files]
    whole = [_literal(files.name(part.file)) for part in parts if part.is_whole]
    selects = [_select(", ".join(whole))] if whole else []
    selects += [_clipped(part, files) for part in parts if not part.is_whole]
    return selects


def _clipped(part: FilePart, files: Files) -> str:
    between = f'"{table.OFFSET}" >= {part.start} AND "{table.OFFSET}" < {part.end}'
    return f"{_select(_literal(files.name(part.file)))} WHERE {between}"


def _select(files: str) -> str:
    return f"SELECT {COLUMNS} FROM read_parquet([{files}], hive_partitioning = false)"


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
