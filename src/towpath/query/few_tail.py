"""A tail of a few records as a table of DuckDB's own, made of Python's values.

Arrow would take longer to load than the rest of such a query takes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from towpath.query.sql_types import RAW, quoted
from towpath.records import column_names as names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from towpath.objects.worker import WorkerObjects
    from towpath.reading.topic import TopicPlan

FEW_RECORDS = 2_000
"""Records that are there sooner this way. One takes about ten microseconds."""
HEADER_KEYS, HEADER_VALUES = "header_keys", "header_values"
COLUMNS = {name: kind for name, kind in RAW.items() if name != names.HEADERS} | {
    names.TIMESTAMP: "BIGINT",
    HEADER_KEYS: "VARCHAR[]",
    HEADER_VALUES: "BLOB[]",
}
"""What is handed over, with its types: times in microseconds, and headers in two, because DuckDB
guesses the types of structs by their values."""


def is_few(plan: TopicPlan) -> bool:
    """Whether the tail is to be shown this way: it is short, it has nothing but the raw columns,
    and Arrow is not loaded anyway."""
    # Loaded where there is a tail.
    from towpath.reading.wal_batches import FEW_BYTES

    parts = [part for partition in plan.partitions for part in partition.tail]
    return (
        plan.typed is None
        and not _arrow_is_loaded()
        and sum(part.end - part.start for part in parts) <= FEW_RECORDS
        and sum(part.size_bytes for part in parts) <= FEW_BYTES
    )


def make_table(
    connection: DuckDBPyConnection, table: str, plan: TopicPlan, objects: WorkerObjects
) -> None:
    """Make a temporary table of the records that are not in Parquet files yet."""
    given = ", ".join(
        f"unnest(${name}::{kind}[]) AS {quoted(name)}" for name, kind in COLUMNS.items()
    )
    expressions = {
        **{name: quoted(name) for name in RAW},
        names.TIMESTAMP: f"make_timestamptz({quoted(names.TIMESTAMP)})",
        names.HEADERS: (
            f"list_transform(list_zip({HEADER_KEYS}, {HEADER_VALUES}), "
            f"lambda pair: {{'key': pair[1], 'value': pair[2]}})::{RAW[names.HEADERS]}"
        ),
    }
    columns = ", ".join(f"{made} AS {quoted(name)}" for name, made in expressions.items())
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {quoted(table)} AS SELECT {columns} FROM (SELECT {given})",
        _columns(plan, objects),
    )


def drop_table(connection: DuckDBPyConnection, table: str) -> None:
    """Forget what `make_table` made."""
    connection.execute(f"DROP TABLE IF EXISTS {quoted(table)}")


def _arrow_is_loaded() -> bool:
    return "pyarrow" in sys.modules


def _columns(plan: TopicPlan, objects: WorkerObjects) -> dict[str, list[Any]]:
    # Loaded where there is a tail.
    from towpath.reading.wal_batches import open_batches
    from towpath.records.few_columns import few_columns

    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for partition in plan.partitions:
        if not partition.tail:
            continue
        start, end = partition.tail[0].start, partition.tail[-1].end
        found = few_columns(list(open_batches(objects, partition.tail)), partition.partition)
        headers = found.pop(names.HEADERS)
        found[HEADER_KEYS] = [[key for key, _ in pairs] for pairs in headers]
        found[HEADER_VALUES] = [[value for _, value in pairs] for pairs in headers]
        wanted = [start <= offset < end for offset in found[names.OFFSET]]
        for name, values in found.items():
            columns[name] += [value for value, is_in in zip(values, wanted, strict=True) if is_in]
    return columns
