"""What the collectors need to know."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class GcSettings:
    """Intervals and graces, all in milliseconds."""

    wal_gc_grace_ms: int = 10 * MINUTE_MS
    """How long an object outlives its last index entry: readers may still be using it."""
    wal_orphan_ttl_ms: int = 24 * HOUR_MS
    """After this a staging block is condemned, and a deleted topic's grave may go."""
    gc_interval_ms: int = MINUTE_MS
    """The pause between two rounds of each collector."""
    retention_interval_ms: int = 5 * MINUTE_MS
    """The pause between two rounds of retention."""
