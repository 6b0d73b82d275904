"""The columns of values in Avro, from their schema.

A union is null and one other type: Iceberg has no unions. What may have any depth (a record inside
itself) has no columns, and an array of what takes no bytes could be of any length in no space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from towpath.typed import types
from towpath.typed.names import RESERVED, Names
from towpath.typed.types import Field, Fields, InvalidSchema, ListOf, MapOf, Scalar, Struct, Type

PRIMITIVES: Final = {
    "boolean": types.BOOLEAN,
    "int": types.INT,
    "long": types.LONG,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "bytes": types.BINARY,
    "string": types.STRING,
}
LOGICAL: Final = {
    ("int", "date"): types.DATE,
    ("int", "time-millis"): types.TIME,
    ("long", "time-micros"): types.TIME,
    ("long", "timestamp-millis"): types.TIMESTAMPTZ,
    ("long", "timestamp-micros"): types.TIMESTAMPTZ,
    ("long", "local-timestamp-millis"): types.TIMESTAMP,
    ("long", "local-timestamp-micros"): types.TIMESTAMP,
}
"""Other logical types are what they annotate, as Avro says; a `uuid` is a string."""
WIDTHS: Final = ("int", "long", "float", "double")
"""Numbers that Avro lets grow into those after them."""
DEPTH_MAX: Final = 32
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def avro_columns(schema: object) -> Fields:
    """The columns of a record's schema, parsed from its JSON. Raises InvalidSchema."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise InvalidSchema("the schema of a value in Avro must be a record")
    fields = _Walk().record(schema, RESERVED, 0)
    if not fields:
        raise InvalidSchema("the record has no fields")
    # Before anything else walks through it: names may stand for the same record many times over.
    types.check_size(fields)
    _check(schema)
    return fields


def merged_columns(schemas: Sequence[tuple[int, object]]) -> Fields:
    """The columns of several versions of a schema, by their ids: what any of them has. Numbers
    become the widest of them; raises InvalidSchema where no type holds both."""
    merged: Fields = ()
    for number, schema in schemas:
        try:
            merged = _merge_fields(merged, avro_columns(schema), "")
        except InvalidSchema as error:
            raise InvalidSchema(f"schema {number}: {error}") from error
    # Names are given once more, so that they do not depend on which version had which field.
    names = Names(reserved=RESERVED)
    return tuple(Field(names.give(field.source), field.type, field.source) for field in merged)


def _check(schema: Mapping[str, Any]) -> None:
    """Whatever else is wrong with the schema, whoever decodes with it knows."""
    from fastavro import parse_schema

    try:
        parse_schema(dict(schema))
    except Exception as error:  # It raises what it stumbles over.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSchema(f"no Avro schema: {reason[:200]}") from error


class _Walk:
    """One walk through a schema: names stand for what they were defined as before."""

    def __init__(self) -> None:
        self._named: dict[str, Type | None] = {}
        """None for one that is being defined."""

    def record(
        self, schema: Mapping[str, Any], reserved: frozenset[str], depth: int, space: str = ""
    ) -> Fields:
        name, space = _full_name(schema, space)
        self._named[name] = None
        found: list[Field] = []
        names, sources = Names(reserved=reserved), set[str]()
        given = schema.get("fields")
        if not isinstance(given, list):
            raise InvalidSchema(f"record {name} has no list of fields")
        for field in given:
            if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
                raise InvalidSchema(f"record {name} has a field without a name")
            source: str = field["name"]
            if _NAME.fullmatch(source) is None or source in sources:
                raise InvalidSchema(f"record {name} cannot have a field {source!r}, or not twice")
            sources.add(source)
            kind = self._type(field.get("type"), f"field {source!r}", depth + 1, space)
            if kind is not None:
                found.append(Field(names.give(source), kind, source))
        self._named[name] = Struct(tuple(found))
        return tuple(found)

    def _type(self, schema: object, place: str, depth: int, space: str) -> Type | None:
        """The type; None for null, which needs no column."""
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"{place} lies deeper than {DEPTH_MAX} levels")
        if isinstance(schema, str):
            return self._by_name(schema, place, space)
        if isinstance(schema, list):
            return self._union(schema, place, depth, space)
        if not isinstance(schema, Mapping):
            raise InvalidSchema(f"{place} has no type")
        given = schema.get("type")
        if isinstance(given, Mapping | list):
            return self._type(given, place, depth + 1, space)
        logical = LOGICAL.get((str(given), str(schema.get("logicalType"))))
        if logical is not None:
            return logical
        match given:
            case "record" | "error":
                fields = self.record(schema, frozenset(), depth, space)
                return Struct(fields) if fields else None
            case "enum":
                return self._define(schema, types.STRING, space)
            case "fixed":
                return self._define(schema, _decimal(schema) or types.BINARY, space)
            case "bytes":
                return _decimal(schema) or types.BINARY
            case "array":
                return ListOf(self._items(schema, "items", place, depth, space))
            case "map":
                return MapOf(self._items(schema, "values", place, depth, space))
        return self._by_name(str(given), place, space)

    def _items(
        self, schema: Mapping[str, Any], name: str, place: str, depth: int, space: str
    ) -> Type:
        found = self._type(schema.get(name), f"{name} of {place}", depth + 1, space)
        if found is None:
            raise InvalidSchema(f"{place}: {name} of null")
        return found

    def _union(self, schema: list[Any], place: str, depth: int, space: str) -> Type | None:
        others = [one for one in schema if one != "null"]
        if len(others) > 1:
            raise InvalidSchema(f"{place}: a union of null and one type is a column, no other is")
        return self._type(others[0], place, depth + 1, space) if others else None

    def _by_name(self, name: str, place: str, space: str) -> Type | None:
        if name == "null":
            return None
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        full = name if "." in name or not space else f"{space}.{name}"
        for candidate in (full, name):
            if candidate in self._named:
                found = self._named[candidate]
                if found is None:
                    raise InvalidSchema(f"{place}: {name} contains itself; it has no columns")
                return found if not isinstance(found, Struct) or found.fields else None
        raise InvalidSchema(f"{place}: unknown type {name!r}")

    def _define(self, schema: Mapping[str, Any], kind: Scalar, space: str) -> Scalar:
        name, _ = _full_name(schema, space)
        self._named[name] = kind
        return kind


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace that it lies in."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"a {schema.get('type')} without a name")
    if "." in name:
        return name, name.rpartition(".")[0]
    inside = schema.get("namespace", space)
    if not isinstance(inside, str):
        raise InvalidSchema(f"{name}: the namespace is a string")
    return (f"{inside}.{name}" if inside else name), inside


def _decimal(schema: Mapping[str, Any]) -> Scalar | None:
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise InvalidSchema("a decimal needs a precision")
    return types.decimal(precision, scale)


def _merge_fields(before: Fields, after: Fields, place: str) -> Fields:
    merged = {field.source: field for field in before}
    names = Names(field.name for field in before)
    for field in after:
        known = merged.get(field.source)
        if known is None:
            merged[field.source] = Field(names.give(field.source), field.type, field.source)
        else:
            kind = _merge(known.type, field.type, f"{place}{field.source}")
            merged[field.source] = Field(known.name, kind, field.source)
    return tuple(merged.values())


def _merge(before: Type, after: Type, place: str) -> Type:
    match before, after:
        case Scalar(), Scalar():
            return _wider(before, after, place)
        case Struct(), Struct():
            return Struct(_merge_fields(before.fields, after.fields, f"{place}."))
        case ListOf(), ListOf():
            return ListOf(_merge(before.element, after.element, place))
        case MapOf(), MapOf():
            return MapOf(_merge(before.value, after.value, place))
    raise _conflict(before, after, place)


def _wider(before: Scalar, after: Scalar, place: str) -> Scalar:
    if before == after or types.can_widen(after, before):
        return before
    if types.can_widen(before, after):
        return after
    if before.name in WIDTHS and after.name in WIDTHS:
        return types.DOUBLE  # A float does not hold every int, nor a long.
    raise _conflict(before, after, place)


def _conflict(before: Type, after: Type, place: str) -> InvalidSchema:
    return InvalidSchema(
        f"field {place!r} is {types.shown(after)} here and {types.shown(before)} in a schema "
        "before it"
    )
