"""An in-memory log for the handlers' tests, with switches for what can go wrong.

It keeps the promises of `towpath.log.interface`: dense offsets, order of appends, linearizable
bounds, wake-ups on growth.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from towpath.errors import OffsetOutOfRange, StreamGone, TowpathError
from towpath.log.interface import (
    Appended,
    Bounds,
    GrowthWatch,
    Log,
    ReadResult,
    Receipt,
    StreamUsage,
    TimestampedOffset,
)
from towpath.records.batch import BatchInfo, stamp


@dataclass
class Stored:
    """A batch at its offset."""

    base: int
    batch: BatchInfo

    @property
    def end(self) -> int:
        return self.base + self.batch.record_count

    @property
    def data(self) -> bytes:
        served = bytearray(self.batch.data)
        stamp(served, self.base, 0)
        return bytes(served)


@dataclass
class Stream:
    """One stream's batches."""

    start: int = 0
    end: int = 0
    stored: list[Stored] = field(default_factory=list)

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.start, self.end)


class FakeWatch(GrowthWatch):
    """A registration; `cancelled` tells whether it was given back."""

    def __init__(self, positions: Sequence[tuple[int, int]], wake: asyncio.Event) -> None:
        self.positions = list(positions)
        self.wake = wake
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLog(Log):
    """See the module."""

    def __init__(self) -> None:
        self.streams: defaultdict[int, Stream] = defaultdict(Stream)
        self.hold = False
        """Whether appends stay pending until `commit()`."""
        self.pending: list[tuple[int, BatchInfo, Receipt]] = []
        self.append_failure: TowpathError | None = None
        self.failures: dict[int, TowpathError] = {}
        """What every call about a stream fails with."""
        self.refused: list[tuple[int, int, int, int]] = []
        self.room: asyncio.Future[None] | None = None
        self.admitted: list[int] = []
        self.watches: list[FakeWatch] = []
        self.watched = asyncio.Event()
        self.bounds_calls: list[list[int]] = []
        self.usage_calls: list[list[int]] = []
        self.reads: list[tuple[int, int, int, bool]] = []
        self.reads_under_way = 0
        self.reads_under_way_max = 0
        self.delete_gate: asyncio.Event | None = None

    def admit(self, size_bytes: int) -> Awaitable[None] | None:
        self.admitted.append(size_bytes)
        return self.room

    def append_for(self, stream_id: int, batch: BatchInfo, receipt: Receipt) -> None:
        if self.append_failure is not None:
            receipt.settle(self.append_failure)
        elif self.hold:
            self.pending.append((stream_id, batch, receipt))
        else:
            self._store(stream_id, batch, receipt)

    def note_refused(
        self, stream_id: int, producer_id: int, producer_epoch: int, sequence: int
    ) -> None:
        self.refused.append((stream_id, producer_id, producer_epoch, sequence))

    def commit(self, failure: Exception | None = None) -> None:
        """Resolve the pending appends, or fail them."""
        pending, self.pending = self.pending, []
        for stream_id, batch, receipt in pending:
            if failure is not None:
                receipt.settle(failure)
            else:
                self._store(stream_id, batch, receipt)

    def _store(self, stream_id: int, batch: BatchInfo, receipt: Receipt) -> None:
        stream = self.streams[stream_id]
        stream.stored.append(Stored(stream.end, batch))
        receipt.settle(Appended(stream.end, stream.start))
        stream.end += batch.record_count
        for watch in self.watches:
            if not watch.cancelled and any(
                stream_id == asked and stream.end > end for asked, end in watch.positions
            ):
                watch.wake.set()

    async def bounds(self, stream_ids: Sequence[int]) -> list[Bounds]:
        self.bounds_calls.append(list(stream_ids))
        await asyncio.sleep(0)
        return [self._get(stream_id).bounds for stream_id in stream_ids]

    def _get(self, stream_id: int) -> Stream:
        failure = self.failures.get(stream_id)
        if failure is not None:
            raise failure
        return self.streams[stream_id]

    async def read(
        self, stream_id: int, offset: int, max_bytes: int, *, min_one: bool
    ) -> ReadResult:
        self.reads.append((stream_id, offset, max_bytes, min_one))
        self.reads_under_way += 1
        self.reads_under_way_max = max(self.reads_under_way_max, self.reads_under_way)
        try:
            await asyncio.sleep(0)
        finally:
            self.reads_under_way -= 1
        stream = self._get(stream_id)
        if not stream.start <= offset <= stream.end:
            raise OffsetOutOfRange(offset, stream.start, stream.end)
        buffers: list[bytes] = []
        size = 0
        for stored in stream.stored:
            if stored.end <= offset:
                continue
            data = stored.data
            if size + len(data) > max_bytes and not (min_one and not buffers):
                break
            buffers.append(data)
            size += len(data)
        return ReadResult(buffers, size, stream.bounds)

    def wait_for_growth(
        self, positions: Sequence[tuple[int, int]], wake: asyncio.Event
    ) -> GrowthWatch:
        watch = FakeWatch(positions, wake)
        self.watches.append(watch)
        if any(self.streams[stream_id].end > end for stream_id, end in positions):
            wake.set()
        self.watched.set()
        return watch

    async def offset_for_time(self, stream_id: int, timestamp_ms: int) -> TimestampedOffset | None:
        for stored in self._get(stream_id).stored:
            if stored.batch.max_timestamp_ms >= timestamp_ms:
                return TimestampedOffset(stored.base, stored.batch.max_timestamp_ms)
        return None

    async def offset_of_max_timestamp(self, stream_id: int) -> TimestampedOffset | None:
        stored = self._get(stream_id).stored
        if not stored:
            return None
        best = max(stored, key=lambda one: one.batch.max_timestamp_ms)
        return TimestampedOffset(best.base, best.batch.max_timestamp_ms)

    async def timestamp_at(self, stream_id: int, offset: int, *, within_ms: int) -> int | None:
        for stored in self._get(stream_id).stored:
            if stored.end > offset:
                return stored.batch.min_timestamp_ms
        return None

    async def delete_before(self, stream_id: int, offset: int) -> int:
        stream = self._get(stream_id)
        if self.delete_gate is not None:
            await self.delete_gate.wait()
        wanted = stream.end if offset == -1 else offset
        if wanted > stream.end:
            raise OffsetOutOfRange(offset, stream.start, stream.end)
        stream.start = max(stream.start, wanted)
        return stream.start

    async def usage(self, stream_ids: Sequence[int]) -> list[StreamUsage]:
        self.usage_calls.append(list(stream_ids))
        found = []
        for stream_id in stream_ids:
            stream = self._get(stream_id)
            size = sum(len(stored.batch.data) for stored in stream.stored)
            found.append(StreamUsage(stream.bounds, size, len(stream.stored), 1_700 + stream.end))
        return found

    async def close(self) -> None:
        self.commit()

    def lose(self, stream_id: int) -> None:
        """Make the stream one of a deleted topic."""
        self.failures[stream_id] = StreamGone(f"stream {stream_id} is gone")


def offsets_of(records: bytes | None) -> list[tuple[int, int]]:
    """The (base offset, size) of every batch of a records field."""
    found = []
    at = 0
    data = records or b""
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at)
        found.append((base, length + 12))
        at += length + 12
    assert at == len(data)
    return found
