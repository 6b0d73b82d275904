"""Whether a DataFrame has the columns of a topic, told before anything is written."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from towpath.records import table
from towpath.writing.errors import WriteRefused
from towpath.writing.rows import COLUMNS, HEADER_KEY, HEADER_VALUE, TOPIC

EXPECTED = {
    table.VALUE: "binary or string",
    table.KEY: "binary or string",
    table.HEADERS: "array<struct<key:string,value:binary>>",
    table.PARTITION: "int",
    table.TIMESTAMP: "timestamp",
    TOPIC: "string",
}


def check_columns(schema: StructType) -> None:
    """Raises WriteRefused unless rows of this schema can be records."""
    names = [field.name.lower() for field in schema.fields]
    for field, name in zip(schema.fields, names, strict=True):
        if name not in COLUMNS:
            raise WriteRefused(
                f"a topic has no column {field.name!r}; select some of {', '.join(COLUMNS)}"
            )
        if names.count(name) > 1:
            raise WriteRefused(f"column {field.name!r} is there twice")
        if not _fits(name, field.dataType):
            raise WriteRefused(
                f"column {field.name!r} is {field.dataType.simpleString()}, not {EXPECTED[name]}"
            )
    if table.VALUE not in names:
        raise WriteRefused(f"column {table.VALUE!r} is missing")


def _fits(name: str, kind: DataType) -> bool:
    if name in (table.VALUE, table.KEY):
        return _is_bytes(kind)
    if name == table.HEADERS:
        return isinstance(kind, ArrayType) and _is_header(kind.elementType)
    if name == table.PARTITION:
        return isinstance(kind, IntegerType)
    if name == table.TIMESTAMP:
        return isinstance(kind, TimestampType)
    return isinstance(kind, StringType)


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_header(kind: DataType) -> bool:
    if not isinstance(kind, StructType):
        return False
    fields = {field.name.lower(): field.dataType for field in kind.fields}
    return (
        sorted(fields) == sorted((HEADER_KEY, HEADER_VALUE))
        and isinstance(fields[HEADER_KEY], StringType)
        and _is_bytes(fields[HEADER_VALUE])
    )
