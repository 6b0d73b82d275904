"""What a column can be: Iceberg's types, as far as values need them, without pyiceberg or pyarrow.

Every column and every part of one may be null, whatever the declaration says: a record that does
not fit has no typed values at all. The JSON form is Iceberg's own, with the name that a field has
in the value (`source`) beside the name of its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.errors import TowpathError

NO_ID = 0
"""Of a column that has no place in a table yet."""
SCALARS = frozenset(
    {
        "boolean", "int", "long", "float", "double", "string", "binary", "date", "time",
        "timestamp", "timestamptz",
    }
)  # fmt: skip
WIDER: Mapping[str, str] = {"int": "long", "float": "double"}
"""Widenings that Iceberg allows, beside those of decimals of the same scale."""
DECIMAL_PRECISION_MAX = 38
COLUMNS_MAX = 5_000
"""Columns, with the fields of structs, that may be declared."""


class InvalidSchema(TowpathError):
    """A declared schema that no columns can be made of; says why in one line."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parts."""

    name: str

    @property
    def word(self) -> str:
        """Its name, fit to be a part of a column's name."""
        return self.name.partition("(")[0]


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a struct."""

    name: str
    type: Type
    source: str
    """The name of the field in the value."""
    id: int = NO_ID


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields of different types."""

    fields: tuple[Field, ...]
    word = "struct"


@dataclass(frozen=True, slots=True)
class ListOf:
    """Any number of elements of one type."""

    element: Type
    element_id: int = NO_ID
    word = "list"


@dataclass(frozen=True, slots=True)
class MapOf:
    """Values of one type by name."""

    value: Type
    key_id: int = NO_ID
    value_id: int = NO_ID
    word = "map"


Type = Scalar | Struct | ListOf | MapOf
Fields = tuple[Field, ...]

BOOLEAN, INT, LONG = Scalar("boolean"), Scalar("int"), Scalar("long")
FLOAT, DOUBLE, STRING = Scalar("float"), Scalar("double"), Scalar("string")
BINARY, DATE, TIME = Scalar("binary"), Scalar("date"), Scalar("time")
TIMESTAMP, TIMESTAMPTZ = Scalar("timestamp"), Scalar("timestamptz")


def decimal(precision: int, scale: int) -> Scalar:
    """A decimal type; raises InvalidSchema for one that Iceberg does not have."""
    if not 0 < precision <= DECIMAL_PRECISION_MAX or not 0 <= scale <= precision:
        raise InvalidSchema(
            f"decimal({precision}, {scale}): the precision is 1 to {DECIMAL_PRECISION_MAX}, "
            "the scale not above it"
        )
    return Scalar(f"decimal({precision}, {scale})")


def decimal_of(kind: Scalar) -> tuple[int, int] | None:
    """Precision and scale; None for other types."""
    if kind.word != "decimal":
        return None
    precision, scale = kind.name[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def can_widen(narrow: Scalar, wide: Scalar) -> bool:
    """Whether a column of the one type may become one of the other in the same table."""
    if WIDER.get(narrow.name) == wide.name:
        return True
    before, after = decimal_of(narrow), decimal_of(wide)
    return (
        before is not None and after is not None and before[1] == after[1] and before[0] <= after[0]
    )


def shown(kind: Type) -> str:
    """The type for people, as Spark and DuckDB would write it."""
    match kind:
        case Scalar():
            return kind.name
        case Struct():
            return "struct<" + ", ".join(f"{f.name}: {shown(f.type)}" for f in kind.fields) + ">"
        case ListOf():
            return f"list<{shown(kind.element)}>"
        case MapOf():
            return f"map<string, {shown(kind.value)}>"


def fields_to_json(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """The fields as Iceberg's schemas have them, each with its `source`."""
    return [
        {
            "id": field.id,
            "name": field.name,
            "source": field.source,
            "required": False,
            "type": _to_json(field.type),
        }
        for field in fields
    ]


def fields_from_json(fields: Sequence[Mapping[str, Any]]) -> Fields:
    """The inverse of `fields_to_json`."""
    return tuple(
        Field(found["name"], _from_json(found["type"]), found["source"], found["id"])
        for found in fields
    )


def _to_json(kind: Type) -> str | dict[str, Any]:
    match kind:
        case Scalar():
            return kind.name
        case Struct():
            return {"type": "struct", "fields": fields_to_json(kind.fields)}
        case ListOf():
            return {
                "type": "list",
                "element-id": kind.element_id,
                "element": _to_json(kind.element),
                "element-required": False,
            }
        case MapOf():
            return {
                "type": "map",
                "key-id": kind.key_id,
                "key": "string",
                "value-id": kind.value_id,
                "value": _to_json(kind.value),
                "value-required": False,
            }


def _from_json(found: str | Mapping[str, Any]) -> Type:
    if isinstance(found, str):
        kind = Scalar(found)
        if found not in SCALARS and decimal_of(kind) is None:
            raise ValueError(f"unknown column type {found!r}")
        return kind
    if found["type"] == "struct":
        return Struct(fields_from_json(found["fields"]))
    if found["type"] == "list":
        return ListOf(_from_json(found["element"]), found["element-id"])
    return MapOf(_from_json(found["value"]), found["key-id"], found["value-id"])


def check_size(fields: Fields) -> None:
    """Raise InvalidSchema for more columns than there may be."""
    _counted(fields, 0)


def _counted(fields: Fields, count: int) -> int:
    for field in fields:
        count += 1
        if count > COLUMNS_MAX:
            raise InvalidSchema(f"more than {COLUMNS_MAX} columns")
        kind = field.type
        while isinstance(kind, ListOf | MapOf):
            kind = kind.element if isinstance(kind, ListOf) else kind.value
        if isinstance(kind, Struct):
            count = _counted(kind.fields, count)
    return count
