"""Numbers in keys: zero-padded decimals, so that lexicographic order is numeric order."""

from __future__ import annotations

WIDTH = 20
"""Digits of the largest u64."""


def pad(number: int) -> str:
    """The number as 20 decimal digits."""
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{number} does not fit an unsigned 64-bit key field")
    return f"{number:020d}"


def unpad(text: str) -> int:
    """The inverse of `pad`; rejects anything that `pad` does not write."""
    if len(text) != WIDTH or not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a {WIDTH}-digit number")
    number = int(text)
    if number >= 1 << 64:
        raise ValueError(f"{text} does not fit an unsigned 64-bit key field")
    return number
