"""Durations and sizes as people write them: `24h`, `64MiB`; plain numbers are ms or bytes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_MS_PER_UNIT = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}

_BYTES_PER_UNIT = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "k": 1024,
    "m": 1024**2,
    "g": 1024**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def _quantity(value: object, factors: dict[str, int], example: str) -> object:
    """`value` in the base unit if it is text with a unit; the rest is left to the int check."""
    if not isinstance(value, str):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None:
        return value.strip()
    factor = factors.get(match[2].lower())
    if factor is None:
        raise ValueError(f"unknown unit '{match[2]}', write for example {example}")
    amount = float(match[1]) * factor if "." in match[1] else int(match[1]) * factor
    if amount != int(amount):
        raise ValueError(f"is not a whole number, write for example {example}")
    return int(amount)


def parse_duration_ms(value: object) -> object:
    """Milliseconds from `90s`, `10min`, `24h`, `7d`; other values pass through."""
    return _quantity(value, _MS_PER_UNIT, "250ms, 10min or 24h")


def parse_size_bytes(value: object) -> object:
    """Bytes from `512KiB`, `64MiB`, `1GB`; other values pass through."""
    return _quantity(value, _BYTES_PER_UNIT, "512KiB or 64MiB")


DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
"""An integer of milliseconds that may be written with a unit."""

SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
"""An integer of bytes that may be written with a unit."""
