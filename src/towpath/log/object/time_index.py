"""Offsets by timestamp: entry bounds, then bounds of batches or row groups, then the records."""

from __future__ import annotations

from towpath.log.interface import TimestampedOffset
from towpath.log.object.entries import Entry, Row
from towpath.log.object.index import Index
from towpath.log.object.parquet_times import ParquetTimes
from towpath.log.object.reader import Reader
from towpath.records import timestamps

NO_TIMESTAMP_MS = -2
"""Below every timestamp, also below Kafka's -1 for "none"."""


class TimeIndex:
    """Answers ListOffsets by timestamp. Timestamps need not be in order, so entries are scanned.

    In the middle of an index swap a scan meets the replaced entries and then the one that replaced
    them: the same records twice, which changes no answer.
    """

    def __init__(self, index: Index, reader: Reader, parquet: ParquetTimes) -> None:
        self._index = index
        self._reader = reader
        self._parquet = parquet

    async def first_at_or_after(
        self, stream_id: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        """The record with the smallest readable offset whose timestamp is not below the asked."""
        return await self._reader.follow_moves(lambda: self._first(stream_id, timestamp_ms))

    async def greatest(self, stream_id: int) -> TimestampedOffset | None:
        """The first readable record that has the greatest timestamp."""
        return await self._reader.follow_moves(lambda: self._greatest(stream_id))

    async def at_offset(self, stream_id: int, offset: int, within_ms: int) -> int | None:
        """The timestamp of the first readable record from an offset on; see `Log.timestamp_at`."""

        async def attempt() -> int | None:
            return await self._at_offset(stream_id, offset, within_ms)

        found_ms = await self._reader.follow_moves(attempt)
        return None if found_ms is None or found_ms < 0 else found_ms

    async def _at_offset(self, stream_id: int, offset: int, within_ms: int) -> int | None:
        (bounds,) = await self._index.bounds((stream_id,))
        at = max(offset, bounds.start)
        while at < bounds.end:
            entry = await self._index.find(stream_id, at)
            if entry is None:
                return None
            if entry.is_parquet:
                found = await self._parquet.first_at_or_after(entry, at, NO_TIMESTAMP_MS)
            elif entry.rows:
                row = entry.rows[entry.first_row_at(at)]
                first_ms, last_ms = row.min_timestamp_ms, row.max_timestamp_ms
                if first_ms >= 0 and last_ms - first_ms <= within_ms:
                    return first_ms
                found = await self._first_in_wal(entry, at, NO_TIMESTAMP_MS)
            else:
                found = None
            if found is not None:
                return found.timestamp_ms
            at = entry.end
        return None

    async def _first(self, stream_id: int, timestamp_ms: int) -> TimestampedOffset | None:
        (bounds,) = await self._index.bounds((stream_id,))
        async for entry in self._index.scan(stream_id, bounds.start):
            if entry.max_timestamp_ms < timestamp_ms:
                continue
            if entry.is_parquet:
                found = await self._parquet.first_at_or_after(entry, bounds.start, timestamp_ms)
            else:
                found = await self._first_in_wal(entry, bounds.start, timestamp_ms)
            if found is not None:
                return found
        return None

    async def _first_in_wal(
        self, entry: Entry, from_offset: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        for row in entry.rows[entry.first_row_at(from_offset) :]:
            if row.max_timestamp_ms < timestamp_ms:
                continue
            batch = await self._reader.batch(entry, row)
            found = timestamps.first_at_or_after(
                batch, row.base_offset, timestamp_ms, from_offset=from_offset
            )
            if found is not None:
                return TimestampedOffset(*found)
        return None

    async def _greatest(self, stream_id: int) -> TimestampedOffset | None:
        (bounds,) = await self._index.bounds((stream_id,))
        best: TimestampedOffset | None = None
        place: tuple[Entry, Row | None] | None = None
        greatest_ms = NO_TIMESTAMP_MS
        async for entry in self._index.scan(stream_id, bounds.start):
            for start, max_timestamp_ms, row in _bounds_in(entry, bounds.start):
                if max_timestamp_ms <= greatest_ms:
                    continue
                if start < bounds.start:
                    # The log starts inside: the bound may belong to a removed record.
                    found = await self._greatest_in(entry, row, bounds.start)
                    if found is not None and found.timestamp_ms > greatest_ms:
                        best, place, greatest_ms = found, None, found.timestamp_ms
                else:
                    best, place, greatest_ms = None, (entry, row), max_timestamp_ms
        return best if place is None else await self._greatest_in(*place, bounds.start)

    async def _greatest_in(
        self, entry: Entry, row: Row | None, from_offset: int
    ) -> TimestampedOffset | None:
        if row is None:
            return await self._parquet.greatest(entry, from_offset)
        batch = await self._reader.batch(entry, row)
        found = timestamps.max_timestamp(batch, row.base_offset, from_offset=from_offset)
        return None if found is None else TimestampedOffset(*found)


def _bounds_in(entry: Entry, from_offset: int) -> list[tuple[int, int, Row | None]]:
    """First offset, greatest timestamp and row of each batch; of a Parquet entry as a whole."""
    if not entry.is_parquet:
        rows = entry.rows[entry.first_row_at(from_offset) :]
        return [(row.base_offset, row.max_timestamp_ms, row) for row in rows]
    files = [file for part in entry.stretches for file in part.files]
    times_ms = [file.max_timestamp_ms for file in files if file.last_offset >= from_offset]
    return [(entry.start, max(times_ms), None)] if times_ms else []
