"""Offsets by timestamp: entry bounds, then batch bounds, then the records of one batch."""

from __future__ import annotations

from towpath.log.interface import TimestampedOffset
from towpath.log.object.entries import Entry, Row
from towpath.log.object.index import Index
from towpath.log.object.reader import Reader
from towpath.records import timestamps

NO_TIMESTAMP_MS = -2
"""Below every timestamp, also below Kafka's -1 for "none"."""


class TimeIndex:
    """Answers ListOffsets by timestamp. Timestamps need not be in order, so entries are scanned."""

    def __init__(self, index: Index, reader: Reader) -> None:
        self._index = index
        self._reader = reader

    async def first_at_or_after(
        self, stream_id: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        """The record with the smallest readable offset whose timestamp is not below the asked."""
        (bounds,) = await self._index.bounds((stream_id,))
        async for entry in self._index.scan(stream_id, bounds.start):
            if entry.max_timestamp_ms < timestamp_ms:
                continue
            for row in entry.rows[entry.first_row_at(bounds.start) :]:
                if row.max_timestamp_ms < timestamp_ms:
                    continue
                batch = await self._reader.batch(entry, row)
                found = timestamps.first_at_or_after(
                    batch, row.base_offset, timestamp_ms, from_offset=bounds.start
                )
                if found is not None:
                    return TimestampedOffset(*found)
        return None

    async def greatest(self, stream_id: int) -> TimestampedOffset | None:
        """The first readable record that has the greatest timestamp."""
        (bounds,) = await self._index.bounds((stream_id,))
        best: TimestampedOffset | None = None
        best_row: tuple[Entry, Row] | None = None
        greatest_ms = NO_TIMESTAMP_MS
        async for entry in self._index.scan(stream_id, bounds.start):
            for row in entry.rows[entry.first_row_at(bounds.start) :]:
                if row.max_timestamp_ms <= greatest_ms:
                    continue
                if row.base_offset < bounds.start:
                    # The log starts inside this batch: its bound may belong to a removed record.
                    best = await self._greatest_in(entry, row, bounds.start)
                    greatest_ms = best.timestamp_ms if best is not None else greatest_ms
                else:
                    best_row, greatest_ms = (entry, row), row.max_timestamp_ms
        return best if best_row is None else await self._greatest_in(*best_row, bounds.start)

    async def _greatest_in(
        self, entry: Entry, row: Row, from_offset: int
    ) -> TimestampedOffset | None:
        batch = await self._reader.batch(entry, row)
        found = timestamps.max_timestamp(batch, row.base_offset, from_offset=from_offset)
        return None if found is None else TimestampedOffset(*found)
