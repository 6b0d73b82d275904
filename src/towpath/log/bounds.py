"""The readable range of a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The readable range `[start, end)` of a stream at one moment."""

    start: int
    end: int
