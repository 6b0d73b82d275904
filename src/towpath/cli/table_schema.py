"""A table's columns and partitioning, from its metadata document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those inside others have dotted names."""

    field_id: int
    name: str
    type: str
    required: bool


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One part of how the table is split."""

    field_id: int
    name: str
    source: str
    transform: str

    @property
    def shown(self) -> str:
        """As people write it: `partition`, `day(timestamp)`."""
        return self.source if self.transform == "identity" else f"{self.transform}({self.source})"


def columns(fields: Mapping[str, Any]) -> list[Column]:
    """The columns of the current schema, each before those inside it."""
    schema = _current(fields, "schemas", "schema-id", "current-schema-id")
    return list(_inside(schema, ""))


def partitioning(fields: Mapping[str, Any]) -> list[PartitionField]:
    """The fields of the current partitioning, in order."""
    names = {column.field_id: column.name for column in columns(fields)}
    spec = _current(fields, "partition-specs", "spec-id", "default-spec-id")
    return [
        PartitionField(
            part["field-id"],
            part["name"],
            names.get(part["source-id"], str(part["source-id"])),
            part["transform"],
        )
        for part in spec.get("fields", ())
    ]


def _current(fields: Mapping[str, Any], group: str, id_name: str, current: str) -> dict[str, Any]:
    known: Sequence[dict[str, Any]] = fields.get(group) or ()
    found = [one for one in known if one.get(id_name) == fields.get(current)]
    return found[0] if found else {}


def _inside(kind: object, prefix: str) -> Iterator[Column]:
    """The columns inside a type; names of primitive types are plain text."""
    if not isinstance(kind, dict):
        return
    for part in kind.get("fields", ()):
        name = prefix + part["name"]
        yield Column(part["id"], name, _type_name(part["type"]), part["required"])
        yield from _inside(part["type"], f"{name}.")
    for role in ("element", "key", "value"):
        if role in kind:
            name, required = prefix + role, kind.get(f"{role}-required", True)
            yield Column(kind[f"{role}-id"], name, _type_name(kind[role]), required)
            yield from _inside(kind[role], f"{name}.")


def _type_name(kind: object) -> str:
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)
