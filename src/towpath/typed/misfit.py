"""Why a value does not fit, and where in it."""

from __future__ import annotations

import json
from typing import Final

REASON_CHARS_MAX: Final = 300
SHOWN_CHARS_MAX: Final = 40


class Misfit(Exception):
    """A value does not fit its declaration; the record keeps its bytes and this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []
        """From the inside out."""

    def inside(self, name: str) -> Misfit:
        """The same, in a part of this name."""
        self.path.append(name)
        return self

    def __str__(self) -> str:
        place = ".".join(reversed(self.path))
        return f"{place}: {self.reason}" if place else self.reason


def reason_of(error: Exception) -> str:
    """An error as a record keeps it: one line of bounded length, which UTF-8 has."""
    text = str(error) if isinstance(error, Misfit) else f"{type(error).__name__}: {error}"
    line = " ".join(text.split()).encode("utf-8", "replace").decode()
    return line if len(line) <= REASON_CHARS_MAX else line[: REASON_CHARS_MAX - 3] + "..."


def described(value: object) -> str:
    """What a value in JSON is, in a few words."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None:
        return "null"
    text = json.dumps(value)
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 3] + "..."
