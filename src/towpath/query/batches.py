"""Answers as Arrow record batches: for programs, and for types that DuckDB gives Python otherwise.

Arrow takes time to load: import this where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS = 10_000
"""Rows that an answer hands over at once."""


class Batches:
    """An open result as record batches, made by DuckDB while they are read."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self.columns: list[str] = reader.schema.names

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._reader)

    def close(self) -> None:
        self._reader.close()


def start_batches(connection: DuckDBPyConnection, sql: str) -> Batches:
    """Begin a statement whose rows are wanted as record batches."""
    return Batches(connection.sql(sql).to_arrow_reader(BATCH_ROWS))
