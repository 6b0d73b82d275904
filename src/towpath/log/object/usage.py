"""What a stream takes up: bytes, objects, and when it was last written."""

from __future__ import annotations

from towpath.log.interface import Bounds, StreamUsage
from towpath.log.object.entries import Entry
from towpath.log.object.index import Index


async def stream_usage(index: Index, stream_id: int, bounds: Bounds) -> StreamUsage:
    """Walk the stream's readable entries. Records that were compacted count what they took in the
    WAL, as retention counts them."""
    counted: list[tuple[int, int, int]] = []
    last_write_ms = -1
    async for entry in index.scan(stream_id, bounds.start):
        # In the middle of an index swap the replaced entries come first: they count no more.
        while counted and counted[-1][0] >= entry.start:
            counted.pop()
        counted.append((entry.start, *_size(entry)))
        last_write_ms = entry.created_at_ms
    size_bytes = sum([size for _, size, _ in counted])
    object_count = sum([objects for _, _, objects in counted])
    return StreamUsage(bounds, size_bytes, object_count, last_write_ms)


def _size(entry: Entry) -> tuple[int, int]:
    """Bytes and objects of an entry."""
    if entry.is_parquet:
        return entry.wal_bytes, entry.file_count
    return (entry.chunk_length, 1) if entry.path else (0, 0)
