"""The bounds of the SQLite store, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SqliteLimits:
    """Every queue, cache, time-out and interval of one `SqliteStore`."""

    write_timeout_ms: int = 5_000
    """How long a write may wait for its turn; then StoreUnavailable, and it will not happen."""
    queued_writes: int = 4_096
    """Writes that wait at once; one more is refused with StoreUnavailable."""
    grouped_writes: int = 64
    """Writes that share one SQLite transaction, and so one fdatasync."""
    changes_kept: int = 10_000
    """Revisions in the change feed; a process that falls further behind gets a resync."""
    cached_streams: int = 65_536
    """Streams whose tail is remembered."""
    poll_interval_ms: int = 200
    """How often the feed is asked without a wake-up, and sessions are looked after."""
    checkpoint_rows: int = 5_000
    """Rows this process changes between two checkpoints of the write-ahead log."""
