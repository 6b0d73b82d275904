"""Reads: find the entries of a range and get their batches from cache or object.

What comes from an object is verified batch by batch (length, CRC32C). A missing or damaged object
that the index still names is an error that names it, never a gap.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from crc32c import crc32c

from towpath.errors import LogDamaged, LogError, LogUnavailable, OffsetOutOfRange
from towpath.log.interface import Bounds, ReadResult
from towpath.log.object.entries import LEADER_EPOCH, Entry, Row
from towpath.log.object.index import Index
from towpath.log.object.range_cache import RangeCache
from towpath.metadata.store import MetadataError
from towpath.objects.store import Buffer, ObjectNotFound, ObjectStore, ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.records import batch as record_batch
from towpath.records.batch import stamp

logger = structlog.get_logger(__name__)

MAX_READ_BYTES = 8 << 20
"""A larger read of a file would hold up the event loop (facts: 64 MiB stop it for 193 ms)."""
MAX_PARALLEL_READS = 8
MAX_MOVED_RETRIES = 3
_LENGTH_AND_CRC = struct.Struct(">8xi5xI")
"""Of a batch's header; between them leader epoch and magic."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Batches of one entry that an answer needs."""

    entry: Entry
    rows: Sequence[Row]


class _Moved(Exception):
    """An object is gone: the index must be read again."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry


class Reader:
    """Serves ranges of streams."""

    def __init__(
        self, index: Index, objects: ObjectStore, ranges: RangeCache, metrics: Metrics
    ) -> None:
        self._index = index
        self._objects = objects
        self._ranges = ranges
        self._metrics = metrics
        self._parallel = asyncio.Semaphore(MAX_PARALLEL_READS)

    async def read(
        self, stream_id: int, offset: int, max_bytes: int, *, min_one: bool
    ) -> ReadResult:
        """Whole batches from `offset` on; see `Log.read`."""
        try:
            (bounds,) = await self._index.bounds((stream_id,))
            return await self.read_within(stream_id, offset, max_bytes, bounds, min_one=min_one)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def read_within(
        self, stream_id: int, offset: int, max_bytes: int, bounds: Bounds, *, min_one: bool
    ) -> ReadResult:
        """As `read`, at bounds that the caller has just asked for."""
        if not bounds.start <= offset <= bounds.end:
            raise OffsetOutOfRange(offset, bounds.start, bounds.end)
        for _ in range(MAX_MOVED_RETRIES):
            spans = await self._plan(stream_id, offset, max_bytes, bounds, min_one)
            try:
                loaded = await self._load_all(spans)
            except _Moved as moved:
                await self._check_still_moved(moved.entry, stream_id)
                (bounds,) = await self._index.bounds((stream_id,))
                if offset < bounds.start:
                    raise OffsetOutOfRange(offset, bounds.start, bounds.end) from moved
                continue
            buffers = [buffer for found in loaded for buffer in found]
            return ReadResult(buffers, sum(map(len, buffers)), bounds)
        raise LogUnavailable(f"objects of stream {stream_id} keep moving")

    async def batch(self, entry: Entry, row: Row) -> Buffer:
        """One batch's bytes."""
        try:
            (found,) = await self._load(_Span(entry, (row,)))
        except _Moved as moved:
            await self._check_still_moved(moved.entry, entry.stream_id)
            raise LogUnavailable(f"{entry.path} was moved meanwhile") from moved
        return found

    async def _plan(
        self, stream_id: int, offset: int, max_bytes: int, bounds: Bounds, min_one: bool
    ) -> list[_Span]:
        spans: list[_Span] = []
        left = max_bytes
        while offset < bounds.end:
            entry = await self._index.find(stream_id, offset)
            if entry is None or entry.start > offset:
                raise await self._explain_gap(stream_id, offset)
            rows = entry.rows[entry.first_row_at(offset) :]
            size_bytes = sum([row.length for row in rows])
            if size_bytes > left:
                rows = _fitting(rows, left, min_one=min_one and not spans)
                size_bytes = left  # What comes after it does not fit either.
            if rows:
                spans.append(_Span(entry, rows))
            left -= size_bytes
            if left <= 0:
                break
            offset = entry.end
        return spans

    async def _explain_gap(self, stream_id: int, offset: int) -> LogError:
        """Entries vanish only below the log start: anything else is damage, never skipped."""
        (bounds,) = await self._index.bounds((stream_id,))
        if offset < bounds.start:
            return OffsetOutOfRange(offset, bounds.start, bounds.end)
        self._metrics.damaged_objects.inc()
        return LogDamaged(f"stream {stream_id} has no index entry for offset {offset}")

    async def _load_all(self, spans: list[_Span]) -> list[list[Buffer]]:
        cached = [self._cached(span) for span in spans]
        missing = [at for at, found in enumerate(cached) if found is None]
        if len(missing) == 1:
            cached[missing[0]] = await self._load(spans[missing[0]])
        elif missing:
            loads = [asyncio.ensure_future(self._load(spans[at])) for at in missing]
            try:
                for at, found in zip(missing, await asyncio.gather(*loads), strict=True):
                    cached[at] = found
            finally:
                for load in loads:
                    load.cancel()
        return [found for found in cached if found is not None]

    def _cached(self, span: _Span) -> list[Buffer] | None:
        found = []
        for row in span.rows:
            batch = self._ranges.get(span.entry.wal_id, row.position)
            if batch is None:
                return None
            found.append(batch)
        return found

    async def _load(self, span: _Span) -> list[Buffer]:
        """The span's batches, from the object in reads of bounded size."""
        batches: list[Buffer] = []
        keep = not self._objects.reads_are_cached
        for group in _groups(span.rows):
            first, last = group[0], group[-1]
            length = last.position + last.length - first.position
            async with self._parallel:
                data = await self._read_range(span.entry, first.position, length)
            if data.readonly:
                data = memoryview(bytearray(data))
            for row in group:
                at = row.position - first.position
                batch = data[at : at + row.length]
                self._verify(span.entry, row, batch)
                stamp(batch, row.base_offset, LEADER_EPOCH)
                if keep:
                    self._ranges.add(span.entry.wal_id, row.position, batch)
                batches.append(batch)
        return batches

    async def _read_range(self, entry: Entry, position: int, length: int) -> memoryview:
        try:
            return await self._objects.read(entry.path, position, length)
        except ObjectNotFound as error:
            raise _Moved(entry) from error
        except ObjectStoreError as error:
            raise LogUnavailable(f"cannot read {entry.path}: {error}") from error

    def _verify(self, entry: Entry, row: Row, batch: memoryview) -> None:
        length, stored_crc = _LENGTH_AND_CRC.unpack_from(batch)
        if (
            length + record_batch.LENGTH_PREFIX_BYTES != row.length
            or crc32c(batch[record_batch.ATTRIBUTES_AT :]) != stored_crc
        ):
            self._damaged(entry)
            raise LogDamaged(f"object {entry.path} is damaged at byte {row.position}")

    async def _check_still_moved(self, entry: Entry, stream_id: int) -> None:
        """Raise LogDamaged if the index still names the object that is gone."""
        self._index.drop(entry)
        present = await self._index.find_in_store(stream_id, entry.end - 1)
        if present is not None and present.wal_id == entry.wal_id and present.rows:
            (bounds,) = await self._index.bounds((stream_id,))
            if bounds.start < entry.end:
                self._damaged(entry)
                raise LogDamaged(f"object {entry.path} is missing")

    def _damaged(self, entry: Entry) -> None:
        self._metrics.damaged_objects.inc()
        logger.error(
            "committed object is missing or damaged",
            path=entry.path,
            stream_id=entry.stream_id,
            start=entry.start,
            end=entry.end,
        )


def _fitting(rows: Sequence[Row], max_bytes: int, *, min_one: bool) -> tuple[Row, ...]:
    """The first of the rows that fit; with `min_one` the first in any case."""
    fitting: list[Row] = []
    for row in rows:
        if row.length > max_bytes and (fitting or not min_one):
            break
        fitting.append(row)
        max_bytes -= row.length
    return tuple(fitting)


def _groups(rows: Sequence[Row]) -> Sequence[Sequence[Row]]:
    """Neighbouring rows that one read may take together."""
    if rows[-1].position + rows[-1].length - rows[0].position <= MAX_READ_BYTES:
        return [rows]
    groups: list[list[Row]] = []
    for row in rows:
        if groups and row.position + row.length - groups[-1][0].position <= MAX_READ_BYTES:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
