"""Typed columns in DuckDB: what they are called there, and how it makes them of values itself.

A function of the connection decodes values batch by batch while DuckDB reads them, and only if the
statement asks for a typed column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from towpath.typed.arrow import arrow_type
from towpath.typed.columns import TypedColumns
from towpath.typed.decode import ValueDecoder
from towpath.typed.types import ListOf, MapOf, Scalar, Struct, Type

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCALARS: Final = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
}


def sql_type(kind: Type) -> str:
    """The type as DuckDB writes it."""
    match kind:
        case Scalar():
            return SCALARS.get(kind.name, kind.name)
        case Struct():
            return f"STRUCT({_members(Struct(kind.fields))})"
        case ListOf():
            return f"{sql_type(kind.element)}[]"
        case MapOf():
            return f"MAP(VARCHAR, {sql_type(kind.value)})"


def quoted(name: str) -> str:
    """A name as SQL has it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def add_decoder(connection: DuckDBPyConnection, name: str, typed: TypedColumns) -> None:
    """Let the connection know a function that makes a struct of all typed columns of a value."""
    decoder = ValueDecoder(typed, infers=False)
    fields = [pa.field(field.name, arrow_type(field.type)) for field in typed.all_fields]

    def decode(values: pa.Array | pa.ChunkedArray) -> pa.Array:
        return pa.StructArray.from_arrays(decoder.decode(values), fields=fields)

    result = connection.type(sql_type(Struct(typed.all_fields)))
    connection.create_function(
        name,
        decode,
        [connection.type("BLOB")],
        result,
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )


def _members(kind: Struct) -> str:
    return ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in kind.fields)
