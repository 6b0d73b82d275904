"""The columns of topics as DuckDB writes their names and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from towpath.records import column_names as names

if TYPE_CHECKING:
    from towpath.typed.types import Fields, Type

RAW: Final[Mapping[str, str]] = {
    names.PARTITION: "INTEGER",
    names.OFFSET: "BIGINT",
    names.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
    names.KEY: "BLOB",
    names.VALUE: "BLOB",
    names.HEADERS: "STRUCT(key VARCHAR, value BLOB)[]",
    names.PRODUCER_ID: "BIGINT",
    names.PRODUCER_EPOCH: "INTEGER",
    names.BASE_SEQUENCE: "INTEGER",
    names.ATTRIBUTES: "INTEGER",
}
"""The columns that every topic has, in their order: what DuckDB makes of `records.table`."""
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
    """The type of a typed column."""
    # Few topics have any, and these take time to load.
    from towpath.typed.types import ListOf, MapOf, Scalar, Struct

    match kind:
        case Scalar():
            return SCALARS.get(kind.name, kind.name)
        case Struct():
            return struct_type(kind.fields)
        case ListOf():
            return f"{sql_type(kind.element)}[]"
        case MapOf():
            return f"MAP(VARCHAR, {sql_type(kind.value)})"


def struct_type(fields: Fields) -> str:
    """The type of a struct with these fields."""
    members = ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in fields)
    return f"STRUCT({members})"


def quoted(name: str) -> str:
    """A name as SQL has it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def listed(columns: Iterable[str]) -> str:
    """Names of columns as SQL has them."""
    return ", ".join(quoted(column) for column in columns)


def literal(text: str) -> str:
    """A text as SQL has it."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
