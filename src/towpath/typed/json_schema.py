"""The part of JSON Schema that says what columns a value has.

What is not understood is refused, so that no record is taken for one that fits unseen. Remarks
(`title`, `description`, ...) are passed over, and so are formats of strings that no column type
knows (`email`, `uri`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from towpath.typed.shapes import Kind, Members, Shape, top_level
from towpath.typed.types import InvalidSchema

REMARKS: Final = frozenset(
    {
        "$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated",
        "readOnly", "writeOnly",
    }
)  # fmt: skip
FORMATS: Final = {
    ("string", "date-time"): Kind.TIMESTAMPTZ,
    ("string", "date"): Kind.DATE,
    ("string", "time"): Kind.TIME,
    ("integer", "int32"): Kind.INT,
    ("number", "float"): Kind.FLOAT,
}
KINDS: Final = {
    "boolean": Kind.BOOLEAN,
    "integer": Kind.LONG,
    "number": Kind.DOUBLE,
    "string": Kind.STRING,
}
KEYWORDS: Final = {
    "string": frozenset({"format", "contentEncoding"}),
    "integer": frozenset({"format"}),
    "number": frozenset({"format"}),
    "array": frozenset({"items"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
DEPTH_MAX: Final = 32


def parse_json_schema(found: object) -> Shape:
    """The shape that a schema, parsed from its JSON, asks for. Raises InvalidSchema."""
    shape = _shape(found, "the schema", 0)
    if shape.kind is not Kind.OBJECT:
        raise InvalidSchema("the schema must be of type object and name properties")
    return shape


def _shape(found: object, place: str, depth: int) -> Shape:
    if depth > DEPTH_MAX:
        raise InvalidSchema(f"{place} lies deeper than {DEPTH_MAX} levels")
    if found is True or found == {}:
        return Shape(Kind.TEXT, nullable=True)
    if not isinstance(found, Mapping):
        raise InvalidSchema(f"{place} is no schema: an object is expected")
    kind, nullable = _type(found, place)
    _check_keywords(found, kind, place)
    if kind == "array":
        items = _shape(found.get("items", True), f"items of {place}", depth + 1)
        return Shape(Kind.ARRAY, nullable, item=items)
    if kind == "object":
        return _object(found, nullable, place, depth)
    if kind is None:
        return Shape(Kind.TEXT, nullable=True)
    if found.get("contentEncoding") is not None:
        if found["contentEncoding"] != "base64":
            raise InvalidSchema(f"{place}: contentEncoding can be base64 only")
        return Shape(Kind.BINARY, nullable)
    return Shape(FORMATS.get((kind, str(found.get("format"))), KINDS[kind]), nullable)


def _type(found: Mapping[str, Any], place: str) -> tuple[str | None, bool]:
    """The type, if there is one, and whether null fits as well."""
    given = found.get("type")
    if given is None:
        given = "object" if "properties" in found else []
    names = [given] if isinstance(given, str) else given
    known = (*KINDS, "array", "object", "null")
    if not isinstance(names, list) or any(name not in known for name in names):
        raise InvalidSchema(f"{place}: type {given!r} is not one of {', '.join(known)}")
    others = [name for name in names if name != "null"]
    if len(others) > 1:
        raise InvalidSchema(
            f"{place}: a column has one type, not {' and '.join(others)}; "
            "without `type` its column is the JSON text"
        )
    nullable = "null" in names or found.get("nullable") is True
    if names and not others:
        raise InvalidSchema(f"{place}: a column of nothing but null")
    return (others[0] if others else None), nullable


def _check_keywords(found: Mapping[str, Any], kind: str | None, place: str) -> None:
    known = {"type", "nullable", *REMARKS, *KEYWORDS.get(kind or "", ())}
    unknown = sorted(set(found) - known)
    if unknown:
        raise InvalidSchema(f"{place}: the keyword {unknown[0]!r} is not supported here")


def _object(found: Mapping[str, Any], nullable: bool, place: str, depth: int) -> Shape:
    properties = found.get("properties")
    others = found.get("additionalProperties", True)
    required = found.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise InvalidSchema(f"{place}: `required` is a list of names")
    if not properties:
        if isinstance(others, Mapping) and others and not required:
            item = _shape(others, f"additionalProperties of {place}", depth + 1)
            return Shape(Kind.MAP, nullable, item=item)
        if depth == 0 or required or others is False:
            raise InvalidSchema(f"{place} names no properties")
        return Shape(Kind.TEXT, nullable=True)
    if not isinstance(properties, Mapping):
        raise InvalidSchema(f"{place}: `properties` is an object")
    if not isinstance(others, bool):
        raise InvalidSchema(f"{place}: additionalProperties beside properties is true or false")
    missing = [name for name in required if name not in properties]
    if missing:
        raise InvalidSchema(f"{place}: {missing[0]!r} is required and not among the properties")
    members = top_level() if depth == 0 else Members()
    for source, schema in properties.items():
        shape = _shape(schema, f"property {source!r}", depth + 1)
        members.add(source, shape, required=source in required)
    return Shape(Kind.OBJECT, nullable, members=tuple(members.found), is_closed=others is False)
