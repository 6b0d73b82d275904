"""Typed columns in DuckDB: how it makes them of values itself.

A function of the connection decodes values batch by batch while DuckDB reads them, and only if the
statement asks for a typed column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from towpath.query.sql_types import struct_type
from towpath.typed.arrow import arrow_type
from towpath.typed.columns import TypedColumns
from towpath.typed.decode import ValueDecoder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def add_decoder(connection: DuckDBPyConnection, name: str, typed: TypedColumns) -> None:
    """Let the connection know a function that makes a struct of all typed columns of a value."""
    decoder = ValueDecoder(typed, infers=False)
    fields = [pa.field(field.name, arrow_type(field.type)) for field in typed.all_fields]

    def decode(values: pa.Array | pa.ChunkedArray) -> pa.Array:
        return pa.StructArray.from_arrays(decoder.decode(values), fields=fields)

    connection.create_function(
        name,
        decode,
        [connection.type("BLOB")],
        connection.type(struct_type(typed.all_fields)),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )
