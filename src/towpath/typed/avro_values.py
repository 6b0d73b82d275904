"""Values in Avro as Python values that Arrow takes for the columns."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from typing import Any, Final

from fastavro import parse_schema, schemaless_reader

from towpath.typed.declaration import Declaration, ValueFormat
from towpath.typed.misfit import Misfit
from towpath.typed.types import Fields, ListOf, MapOf, Scalar, Struct, Type

Adapt = Callable[[Any], Any]
MAGIC: Final = 0
PREFIX_BYTES: Final = 5
"""Before a value of a registry: a zero, and the id of its schema, most significant byte first."""


class AvroReader:
    """Decodes values of one declaration to objects by column name."""

    def __init__(self, declaration: Declaration, columns: Fields) -> None:
        """`columns` are those declared, not those that the table has beside them."""
        self._has_prefix = declaration.format is ValueFormat.AVRO_REGISTRY
        self._schemas = {
            number: parse_schema(dict(schema))  # type: ignore[call-overload]
            for number, schema in declaration.avro_schemas().items()
        }
        self._columns = [(field.source, field.name, _adapter(field.type)) for field in columns]

    def __call__(self, value: bytes) -> dict[str, Any]:
        """The value's columns. Raises Misfit, or whatever the decoder stumbles over."""
        schema = self._schemas[0] if not self._has_prefix else self._of_prefix(value)
        source = io.BytesIO(value)
        if self._has_prefix:
            source.seek(PREFIX_BYTES)
        try:
            found: Any = schemaless_reader(source, schema, None)
        except EOFError:
            raise Misfit(f"not of its schema: it ends at byte {len(value)}") from None
        except (ValueError, LookupError, OverflowError, TypeError, ArithmeticError) as error:
            raise Misfit(f"not of its schema: {error}") from None
        if source.tell() != len(value):
            raise Misfit(f"not of its schema: {len(value) - source.tell()} bytes are left over")
        columns = {}
        for name, column, adapt in self._columns:
            member = found.get(name)
            if member is not None:
                columns[column] = member if adapt is None else adapt(member)
        return columns

    def _of_prefix(self, value: bytes) -> Any:
        if len(value) < PREFIX_BYTES or value[0] != MAGIC:
            raise Misfit("has no prefix of a registry: a zero byte and the id of its schema")
        number = int.from_bytes(value[1:PREFIX_BYTES], "big")
        schema = self._schemas.get(number)
        if schema is None:
            raise Misfit(f"no schema has the id {number}")
        return schema


def _adapter(kind: Type) -> Adapt | None:
    """What turns a decoded value into one that Arrow takes; None if it is one already."""
    match kind:
        case Scalar():
            # Only a uuid is decoded to something else than its column holds.
            return _text if kind.name == "string" else None
        case Struct():
            return _struct(kind)
        case ListOf():
            inner = _adapter(kind.element)
            if inner is None:
                return None
            return lambda items: [None if item is None else inner(item) for item in items]
        case MapOf():
            return _map(_adapter(kind.value))


def _text(value: Any) -> Any:
    return str(value) if type(value) is uuid.UUID else value


def _struct(kind: Struct) -> Adapt:
    members = [(field.source, field.name, _adapter(field.type)) for field in kind.fields]

    def adapt(value: Any) -> Any:
        found = {}
        for source, name, inner in members:
            member = value.get(source)
            if member is not None:
                found[name] = member if inner is None else inner(member)
        return found

    return adapt


def _map(inner: Adapt | None) -> Adapt:
    if inner is None:
        return lambda value: list(value.items())
    return lambda value: [
        (name, None if member is None else inner(member)) for name, member in value.items()
    ]
