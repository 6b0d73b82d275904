"""The object log's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectLogSettings:
    """Limits and places; every buffer and cache is bounded by one of these."""

    broker_id: int = 1
    cluster_prefix: str = "towpath"
    zone: str = "default"
    max_buffer_bytes: int = 64 << 20
    """Produced bytes that are not committed yet; more must wait."""
    flush_max_bytes: int = 8 << 20
    """A WAL object is closed at this size."""
    linger_ms: int = 0
    """How long a flush waits for company; at 0 it starts when no other is in flight."""
    max_inflight_flushes: int = 4
    """Uploads of one domain that may overlap."""
    flush_max_objects_per_second: int = 1000
    """Above this rate flushes wait for company even without a linger."""
    range_cache_bytes: int = 128 << 20
    parquet_cache_bytes: int = 64 << 20
    """Of batches made of Parquet files."""
    index_cache_bytes: int = 32 << 20
    wal_orphan_ttl_ms: int = 86_400_000
    producer_expiry_ms: int = 86_400_000
    max_commit_attempts: int = 50
    """How often a commit is repeated after another broker appended to a producer's stream."""
