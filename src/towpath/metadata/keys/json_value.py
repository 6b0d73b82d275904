"""Values that are read by people and other tools: JSON objects with a version field."""

from __future__ import annotations

import json
from typing import Any


class UnknownValueVersion(Exception):
    """A stored value was written by a newer release, or is damaged."""


class Fields(dict[str, Any]):
    """The fields of a value; asking for one that is not there tells that the value is damaged."""

    def __missing__(self, name: str) -> Any:
        raise UnknownValueVersion(f"damaged value: it has no field {name!r}")


def encode(version: int, fields: dict[str, Any]) -> bytes:
    """The fields as compact JSON, with `version` first."""
    return json.dumps({"version": version, **fields}, separators=(",", ":")).encode()


def decode(value: bytes, version: int, what: str) -> Fields:
    """The fields of a value of exactly this version."""
    try:
        fields = json.loads(value)
        found = fields["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownValueVersion(f"damaged {what} value: {value[:80]!r}") from error
    if found != version:
        raise UnknownValueVersion(f"{what} value has version {found}, this release knows {version}")
    return Fields(fields)
