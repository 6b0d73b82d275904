"""Offsets by timestamp in Parquet entries: bounds of files, then of row groups, then the rows."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.log.interface import TimestampedOffset
from towpath.log.object.entries import Entry
from towpath.log.object.parquet_layout import ByteRange, Footer, Layout, RowGroup
from towpath.log.object.parquet_reader import ParquetReader
from towpath.log.object.stretches import Stretch


class ParquetTimes:
    """Looks for timestamps. Reads no other columns than offsets and timestamps."""

    def __init__(self, reader: ParquetReader) -> None:
        self._reader = reader

    async def first_at_or_after(
        self, entry: Entry, from_offset: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        """The entry's first record, from an offset on, that is not older than the timestamp."""
        for stretch in entry.stretches:
            if not _may_hold(stretch, from_offset, timestamp_ms):
                continue
            layout = await self._reader.layout(entry, stretch)
            best: tuple[int, int] | None = None
            for footer, group in _groups(layout, from_offset):
                if best is not None and best[0] < group.first_offset:
                    break
                if group.max_timestamp_ms >= timestamp_ms:
                    found = await self._reader.search(
                        entry, footer, group, _first_at_or_after, from_offset, timestamp_ms
                    )
                    best = min(filter(None, (best, found)), default=None)
            if best is not None:
                return TimestampedOffset(*best)
        return None

    async def greatest(self, entry: Entry, from_offset: int) -> TimestampedOffset | None:
        """The entry's first record, from an offset on, that has the greatest timestamp."""
        layouts = [
            await self._reader.layout(entry, stretch)
            for stretch in entry.stretches
            if stretch.end > from_offset
        ]
        groups = [found for layout in layouts for found in _groups(layout, from_offset)]
        groups.sort(key=lambda found: -found[1].max_timestamp_ms)
        best: tuple[int, int] | None = None
        for footer, group in groups:
            if best is not None and group.max_timestamp_ms < best[1]:
                break
            found = await self._reader.search(entry, footer, group, _greatest, from_offset)
            if found is not None and (best is None or _is_better(found, best)):
                best = found
        return None if best is None else TimestampedOffset(*best)


def _may_hold(stretch: Stretch, from_offset: int, timestamp_ms: int) -> bool:
    return any(
        file.max_timestamp_ms >= timestamp_ms and file.last_offset >= from_offset
        for file in stretch.files
    )


def _groups(layout: Layout, from_offset: int) -> list[tuple[Footer, RowGroup]]:
    """The row groups with offsets from this one on, in the order of their first ones."""
    found = [
        (footer, group)
        for footer in layout.footers
        for group in footer.row_groups
        if group.last_offset >= from_offset
    ]
    return sorted(found, key=lambda item: item[1].first_offset)


def _is_better(found: tuple[int, int], best: tuple[int, int]) -> bool:
    """Whether its timestamp is greater, or equal at a smaller offset."""
    return (found[1], -found[0]) > (best[1], -best[0])


# In threads, where the imports happen that take long


def _first_at_or_after(
    footer: Footer,
    group: RowGroup,
    ranges: Sequence[ByteRange],
    buffers: Sequence[memoryview],
    from_offset: int,
    timestamp_ms: int,
) -> tuple[int, int] | None:
    from towpath.log.object.parquet_decode import first_at_or_after

    return first_at_or_after(footer, group, ranges, buffers, from_offset, timestamp_ms)


def _greatest(
    footer: Footer,
    group: RowGroup,
    ranges: Sequence[ByteRange],
    buffers: Sequence[memoryview],
    from_offset: int,
) -> tuple[int, int] | None:
    from towpath.log.object.parquet_decode import greatest

    return greatest(footer, group, ranges, buffers, from_offset)
