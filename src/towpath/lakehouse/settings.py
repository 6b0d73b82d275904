"""What the pipeline needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """When ranges are due, how large things get, and how long replaced ones stay."""

    objects_url: str
    cluster_prefix: str
    objects_options: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """Of the store's service, secrets too."""
    interval_ms: int = 1_000
    """The pause between two looks for due work."""
    wal_max_age_ms: int = 5_000
    """Records stay in WAL form for this long at most, then their range is due."""
    wal_max_bytes: int = 64 * MIB
    """A stream with this many bytes in WAL form is due whatever their age."""
    job_max_bytes: int = 512 * MIB
    """WAL bytes of one task; what is left is the next one's."""
    job_max_entries: int = 20_000
    round_max_bytes: int = 4096 * MIB
    """WAL bytes of the tasks of one round."""
    round_max_tasks: int = 500
    target_file_bytes: int = 128 * MIB
    row_group_bytes: int = 8 * MIB
    max_files_per_partition: int = 10
    """So many small neighbouring files are rewritten to one."""
    key_memory_bytes: int = 256 * MIB
    """What a worker may hold of keys in key compaction."""
    clean_interval_ms: int = 15_000
    """How often a stream is looked at for keys to compact."""
    lock_ttl_ms: int = 30_000
    file_gc_grace_ms: int = 10 * MINUTE_MS
    """How long a replaced Parquet file outlives its last index entry."""
    orphan_ttl_ms: int = 24 * HOUR_MS
    """Files that nothing names are deleted after this."""
    retention_in_tables: bool = True
    """Whether records leave the table when they leave the log."""
    maintenance_interval_ms: int = MINUTE_MS
    idle_after_ms: int = 5 * MINUTE_MS
    """The runner gives its memory back after so long without work."""
