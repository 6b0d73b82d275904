"""Finds records of a stored batch by timestamp, for ListOffsets.

With LogAppendTime all records of a batch have its greatest timestamp. Large batches take long:
call these through `Runtime.offload` then.
"""

from __future__ import annotations

from towpath.objects.store import Buffer
from towpath.records import compression
from towpath.records.walk import scan_timestamps


def first_at_or_after(
    batch: Buffer,
    base_offset: int,
    timestamp_ms: int,
    *,
    from_offset: int = 0,
    decompressed_max_bytes: int = compression.STORED_BYTES_MAX,
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after `timestamp_ms`, or None.

    Records below `from_offset` (the log start may lie inside a batch) do not count.
    """
    for offset_delta, found_ms in scan_timestamps(batch, decompressed_max_bytes):
        if found_ms >= timestamp_ms and base_offset + offset_delta >= from_offset:
            return base_offset + offset_delta, found_ms
    return None


def max_timestamp(
    batch: Buffer,
    base_offset: int,
    *,
    from_offset: int = 0,
    decompressed_max_bytes: int = compression.STORED_BYTES_MAX,
) -> tuple[int, int] | None:
    """Offset and timestamp of the record with the greatest timestamp, the first of equals.

    None if the batch holds no record at or above `from_offset`.
    """
    best: tuple[int, int] | None = None
    for offset_delta, found_ms in scan_timestamps(batch, decompressed_max_bytes):
        if base_offset + offset_delta < from_offset:
            continue
        if best is None or found_ms > best[1]:
            best = base_offset + offset_delta, found_ms
    return best
