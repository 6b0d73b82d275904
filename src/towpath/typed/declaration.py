"""What a topic says of its values: the settings `towpath.value.format` and `towpath.value.schema`.

A declaration is a pure function of the two texts. Its stamp is written beside every data file, so
files that were made with another declaration are known by it, and go back to being right if the
declaration goes back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from towpath.typed.avro_schema import avro_columns, merged_columns
from towpath.typed.json_schema import parse_json_schema
from towpath.typed.shapes import Shape, fields_of
from towpath.typed.types import Fields, InvalidSchema, check_size

FORMAT: Final = "towpath.value.format"
SCHEMA: Final = "towpath.value.schema"
INFER: Final = "infer"
DECODER_VERSION: Final = 1
"""Raised when the same declaration makes other columns of the same values: all files are made
again then."""
NO_STAMP: Final = ""
"""Of files without typed columns."""
SCHEMA_ID_MAX: Final = (1 << 32) - 1


class ValueFormat(Enum):
    """How values are encoded."""

    JSON = "json"
    AVRO = "avro"
    AVRO_REGISTRY = "avro-registry"


NONE: Final = "none"
FORMATS: Final = (NONE, *(one.value for one in ValueFormat))


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the values of a topic are. Made by `declare`, so it is right."""

    format: ValueFormat
    schema: str
    """JSON text: a JSON Schema, an Avro schema, or Avro schemas by id; `infer` for columns that
    are found in the values."""

    @property
    def infers(self) -> bool:
        """Whether columns are found in the values."""
        return self.format is ValueFormat.JSON and self.schema == INFER

    @property
    def stamp(self) -> str:
        """Which typed columns a file has, in 16 characters."""
        text = json.dumps([DECODER_VERSION, self.format.value, self.schema])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def shape(self) -> Shape:
        """What values in JSON have to look like, if that is given."""
        return _shape(self.schema)

    def avro_schemas(self) -> Mapping[int, object]:
        """The Avro schemas by their ids; the only one without a registry has the id 0."""
        found = json.loads(self.schema)
        return _by_id(found) if self.format is ValueFormat.AVRO_REGISTRY else {0: found}

    def columns(self) -> Fields:
        """The declared columns, without ids; none if they are inferred."""
        if self.infers:
            return ()
        return _columns(self.format, self.schema)


def declare(format_name: str, schema: str) -> Declaration | None:
    """The declaration that two settings make; None without one. Raises InvalidSchema."""
    schema = schema.strip()
    if format_name == NONE:
        if schema:
            raise InvalidSchema(f"{SCHEMA} means nothing without {FORMAT}")
        return None
    value_format = ValueFormat(format_name)
    if value_format is ValueFormat.JSON and schema in ("", INFER):
        return Declaration(value_format, INFER)
    if not schema:
        raise InvalidSchema(f"{FORMAT}={format_name} needs a schema in {SCHEMA}")
    found = Declaration(value_format, schema)
    found.columns()
    return found


def declared(overrides: Mapping[str, str]) -> Declaration | None:
    """The declaration in a topic's settings. One that this release cannot read counts as none, so
    that a topic configured by another release stays usable."""
    try:
        return declare(overrides.get(FORMAT, NONE), overrides.get(SCHEMA, ""))
    except (InvalidSchema, ValueError):
        return None


@lru_cache(maxsize=64)
def _columns(value_format: ValueFormat, schema: str) -> Fields:
    found = _parsed(schema)
    match value_format:
        case ValueFormat.JSON:
            fields = fields_of(parse_json_schema(found))
        case ValueFormat.AVRO:
            fields = avro_columns(found)
        case ValueFormat.AVRO_REGISTRY:
            fields = merged_columns(sorted(_by_id(found).items()))
    check_size(fields)
    return fields


@lru_cache(maxsize=64)
def _shape(schema: str) -> Shape:
    return parse_json_schema(_parsed(schema))


def _parsed(schema: str) -> object:
    try:
        return json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from error


def _by_id(found: object) -> dict[int, object]:
    if not isinstance(found, dict) or not found:
        raise InvalidSchema('a registry is an object of schemas by id: {"1": {...}, "2": {...}}')
    schemas: dict[int, object] = {}
    for text, schema in found.items():
        if not (text.isascii() and text.isdecimal()) or len(text) > 10:
            raise InvalidSchema(f"{text!r} is no id of a schema: a number is expected")
        if int(text) > SCHEMA_ID_MAX:
            raise InvalidSchema(f"{text} is no id of a schema: it has 32 bits")
        schemas[int(text)] = schema
    return schemas
