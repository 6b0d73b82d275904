"""Columns as Arrow has them, with the field ids that Parquet files carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from towpath.records.table import FIELD_ID
from towpath.typed.types import Field, Fields, ListOf, MapOf, Scalar, Struct, Type, decimal_of

SCALARS: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The type, with the ids of its parts."""
    match kind:
        case Scalar():
            precision = decimal_of(kind)
            return SCALARS[kind.name] if precision is None else pa.decimal128(*precision)
        case Struct():
            return pa.struct([arrow_field(field) for field in kind.fields])
        case ListOf():
            return pa.list_(_field("element", arrow_type(kind.element), kind.element_id))
        case MapOf():
            key = _field("key", pa.string(), kind.key_id, nullable=False)
            return pa.map_(key, _field("value", arrow_type(kind.value), kind.value_id))


def arrow_field(field: Field) -> pa.Field:
    """A column, or a field of a struct."""
    return _field(field.name, arrow_type(field.type), field.id)


def leaf_paths(fields: Fields) -> Iterator[str]:
    """The columns that a Parquet file has of these, by the paths that it gives them."""
    for field in fields:
        yield from _leaves(field.name, field.type)


def _leaves(path: str, kind: Type) -> Iterator[str]:
    match kind:
        case Scalar():
            yield path
        case Struct():
            for field in kind.fields:
                yield from _leaves(f"{path}.{field.name}", field.type)
        case ListOf():
            yield from _leaves(f"{path}.list.element", kind.element)
        case MapOf():
            yield f"{path}.key_value.key"
            yield from _leaves(f"{path}.key_value.value", kind.value)


def _field(name: str, kind: pa.DataType, field_id: int, *, nullable: bool = True) -> pa.Field:
    metadata = {FIELD_ID: str(field_id).encode()} if field_id else None
    return pa.field(name, kind, nullable, metadata)
