"""Settings that hold other software's settings: a mapping in YAML, `a=b,c=d` or JSON elsewhere."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BeforeValidator


def parse_properties(value: object) -> object:
    """A mapping of strings from JSON or `name=value,...`; numbers and booleans become text."""
    if isinstance(value, str):
        value = _from_text(value.strip())
    if not isinstance(value, dict):
        return value
    return {str(name): _text(found) for name, found in value.items()}


def _from_text(text: str) -> object:
    if not text:
        return {}
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from error
    pairs = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            # The pair itself may be a piece of a secret.
            raise ValueError("wants name=value,name=value or JSON")
        pairs[name.strip()] = value.strip()
    return pairs


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def parse_list(value: object) -> object:
    """A list from YAML, JSON or `a,b`."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from error
    return [item.strip() for item in text.split(",") if item.strip()]


Properties = Annotated[dict[str, str], BeforeValidator(parse_properties)]
"""Other software's settings by name."""

Names = Annotated[tuple[str, ...], BeforeValidator(parse_list)]
"""A list of names."""
