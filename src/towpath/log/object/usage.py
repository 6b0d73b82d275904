"""What a stream takes up: bytes, objects, and when it was last written."""

from __future__ import annotations

from towpath.log.interface import Bounds, StreamUsage
from towpath.log.object.index import Index


async def stream_usage(index: Index, stream_id: int, bounds: Bounds) -> StreamUsage:
    """Walk the stream's readable entries."""
    size_bytes = 0
    object_count = 0
    last_write_ms = -1
    async for entry in index.scan(stream_id, bounds.start):
        if entry.rows:
            size_bytes += entry.chunk_length
            object_count += 1
        last_write_ms = entry.created_at_ms
    return StreamUsage(bounds, size_bytes, object_count, last_write_ms)
