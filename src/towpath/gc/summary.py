"""What a collector's round did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """`more` says that the round stopped at its limit: the next one should follow soon."""

    examined: int = 0
    """Streams, graves, orders or markers looked at."""
    removed: int = 0
    """Entries, objects or keys removed, whichever the collector is for."""
    more: bool = False
