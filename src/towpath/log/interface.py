"""The log as its callers see it: append batches, read batches, find offsets, move the start.

A front end validates a batch with `records.validate`, waits for room with `admit`, and hands it to
`append`, which enqueues at once and resolves a future when the batch is durable and committed.
Appends of one stream are committed in the order in which `append` was called.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from towpath.log.bounds import Bounds as Bounds
from towpath.objects.store import Buffer
from towpath.records.batch import BatchInfo


class Appended(NamedTuple):
    """Where a batch went. A duplicate gets the offset it got the first time."""

    base_offset: int
    log_start: int


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Batches from an offset on, their base offsets patched, and the bounds they were read at.

    `buffers` concatenated is a valid Kafka records field; the first batch may start below the
    asked offset (it contains it). The buffers stay valid as long as they are referenced.
    """

    buffers: Sequence[Buffer]
    size_bytes: int
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class TimestampedOffset:
    """An offset and the timestamp of its record."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StreamUsage:
    """What a stream takes up, for describe and log-dirs."""

    bounds: Bounds
    size_bytes: int
    """Bytes of readable records (cumulative sizes count WAL bytes)."""
    object_count: int
    last_write_ms: int
    """When the newest entry was written; -1 if there is none."""


REFUSED_REMEMBERED_MS: Final = 300_000
"""How long a refused batch is expected again: as long as clients try to deliver one."""


class Receipt(Protocol):
    """Who is told what became of an appended batch."""

    def settle(self, outcome: Appended | Exception) -> None:
        """Called on the event loop when the batch is committed or has failed. It must not raise;
        if it is called again, only the first call counts."""
        ...


class FutureReceipt:
    """A receipt as a future. If nobody waits any more when it fails, nobody is told."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Appended | Exception) -> None:
        """Resolve the future."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
            self.future.exception()
        else:
            self.future.set_result(outcome)


class Log(ABC):
    """One storage class's log. All methods run on the event loop."""

    @abstractmethod
    def admit(self, size_bytes: int) -> Awaitable[None] | None:
        """Room for `size_bytes` more in the buffers: None if there is, else what to wait for.

        First come, first served. Raises LogClosed while shutting down.
        """

    @abstractmethod
    def append_for(self, stream_id: int, batch: BatchInfo, receipt: Receipt) -> None:
        """Enqueue one validated batch. The receipt is settled with its place, or with
        ProducerError, StreamGone, LogUnavailable (retriable, nothing visible) or LogClosed."""

    def append(self, stream_id: int, batch: BatchInfo) -> asyncio.Future[Appended]:
        """As `append_for`, with a future for the outcome."""
        receipt = FutureReceipt()
        self.append_for(stream_id, batch, receipt)
        return receipt.future

    @abstractmethod
    def note_refused(
        self, stream_id: int, producer_id: int, producer_epoch: int, sequence: int
    ) -> None:
        """A batch of an idempotent producer was refused before `append` and will be sent again:
        if the stream does not know the producer yet, its later batches must wait for it."""

    @abstractmethod
    async def bounds(self, stream_ids: Sequence[int]) -> list[Bounds]:
        """The streams' present bounds, linearizable."""

    @abstractmethod
    async def read(
        self, stream_id: int, offset: int, max_bytes: int, *, min_one: bool
    ) -> ReadResult:
        """Whole batches from `offset` on, up to `max_bytes`; with `min_one` at least one batch even
        if it is larger. At the log end the result is empty. Raises OffsetOutOfRange, LogDamaged,
        LogUnavailable. An empty answer is linearizable: it asked the store."""

    @abstractmethod
    def wait_for_growth(
        self, positions: Sequence[tuple[int, int]], wake: asyncio.Event
    ) -> GrowthWatch:
        """Set `wake` whenever one of the `(stream_id, known_end)` streams grows past `known_end`
        (at once if it already did), also by another broker's commit."""

    @abstractmethod
    async def offset_for_time(self, stream_id: int, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record at or after the timestamp, or None."""

    @abstractmethod
    async def offset_of_max_timestamp(self, stream_id: int) -> TimestampedOffset | None:
        """The record with the greatest timestamp (the first of equals), or None if empty."""

    @abstractmethod
    async def timestamp_at(self, stream_id: int, offset: int, *, within_ms: int) -> int | None:
        """The timestamp of the first readable record at or after the offset, or one that is at most
        `within_ms` earlier; None if there is no such record, or it has none. The more it may be
        off, the less has to be read."""

    @abstractmethod
    async def delete_before(self, stream_id: int, offset: int) -> int:
        """Move the log start to `offset` (never back) and return the log start now.
        `offset` -1 means the log end. Raises OffsetOutOfRange above the end."""

    @abstractmethod
    async def usage(self, stream_ids: Sequence[int]) -> list[StreamUsage]:
        """What the streams take up."""

    @abstractmethod
    async def close(self) -> None:
        """Stop admitting, flush what was appended, and answer every future."""


class GrowthWatch(ABC):
    """A registration of `wait_for_growth`."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop watching."""
