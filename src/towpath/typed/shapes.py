"""What a value in JSON has to look like to fit, and the column it then becomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from towpath.typed import types
from towpath.typed.names import RESERVED, Names
from towpath.typed.types import Field, Fields, ListOf, MapOf, Scalar, Struct, Type


class Kind(Enum):
    """What is expected of a value in JSON."""

    BOOLEAN = "boolean"
    INT = "32-bit integer"
    LONG = "integer"
    FLOAT = "32-bit number"
    DOUBLE = "number"
    STRING = "string"
    DATE = "date"
    TIME = "time"
    TIMESTAMPTZ = "date-time"
    BINARY = "base64"
    TEXT = "any"
    """Whatever it is: its column is its JSON text."""
    ARRAY = "array"
    OBJECT = "object"
    MAP = "object of equals"


COLUMNS: dict[Kind, Scalar] = {
    Kind.BOOLEAN: types.BOOLEAN,
    Kind.INT: types.INT,
    Kind.LONG: types.LONG,
    Kind.FLOAT: types.FLOAT,
    Kind.DOUBLE: types.DOUBLE,
    Kind.STRING: types.STRING,
    Kind.DATE: types.DATE,
    Kind.TIME: types.TIME,
    Kind.TIMESTAMPTZ: types.TIMESTAMPTZ,
    Kind.BINARY: types.BINARY,
    Kind.TEXT: types.STRING,
}
_KINDS = {kind.name: found for found, kind in COLUMNS.items() if found is not Kind.TEXT}


@dataclass(frozen=True, slots=True)
class Shape:
    """One value's shape."""

    kind: Kind
    nullable: bool = False
    item: Shape | None = None
    """Of the elements of an array, or of the values of a map."""
    members: tuple[Member, ...] = ()
    is_closed: bool = False
    """Whether other members than these are an error; else they are passed over."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object."""

    source: str
    name: str
    """Of its column."""
    shape: Shape
    required: bool = False


class Members:
    """Members as they are found, each with a name of its own."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self.found: list[Member] = []
        self._names = Names(reserved=reserved)

    def add(self, source: str, shape: Shape, *, required: bool = False) -> None:
        """One more."""
        self.found.append(Member(source, self._names.give(source), shape, required))


def top_level() -> Members:
    """For the columns of the table itself."""
    return Members(RESERVED)


def type_of(shape: Shape) -> Type:
    """The type of a value of this shape in the table."""
    if shape.kind is Kind.OBJECT:
        return Struct(fields_of(shape))
    if shape.kind in (Kind.ARRAY, Kind.MAP):
        assert shape.item is not None
        item = type_of(shape.item)
        return ListOf(item) if shape.kind is Kind.ARRAY else MapOf(item)
    return COLUMNS[shape.kind]


def fields_of(shape: Shape) -> Fields:
    """The columns, or a struct's fields, of an object."""
    return tuple(
        Field(member.name, type_of(member.shape), member.source) for member in shape.members
    )


def shape_of(fields: Fields) -> Shape:
    """What fits inferred columns: any part may be missing or null."""
    members = tuple(Member(field.source, field.name, _shape_of(field.type)) for field in fields)
    return Shape(Kind.OBJECT, nullable=True, members=members)


def _shape_of(kind: Type) -> Shape:
    match kind:
        case Scalar():
            return Shape(_KINDS[kind.name], nullable=True)
        case Struct():
            return shape_of(kind.fields)
        case ListOf():
            return Shape(Kind.ARRAY, nullable=True, item=_shape_of(kind.element))
        case MapOf():
            return Shape(Kind.MAP, nullable=True, item=_shape_of(kind.value))
