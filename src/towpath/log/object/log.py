"""The object storage class behind the log interface: any broker appends, any broker reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from towpath.errors import LogUnavailable, OffsetOutOfRange
from towpath.log.interface import (
    Bounds,
    GrowthWatch,
    Log,
    ReadResult,
    Receipt,
    StreamUsage,
    TimestampedOffset,
)
from towpath.log.object.buffer import Room
from towpath.log.object.committer import Committer
from towpath.log.object.damage import Damage
from towpath.log.object.growth import Growth
from towpath.log.object.index import Index
from towpath.log.object.index_cache import IndexCache
from towpath.log.object.lost_sequences import LostSequences
from towpath.log.object.parquet_reader import ParquetReader
from towpath.log.object.parquet_times import ParquetTimes
from towpath.log.object.producer_states import ProducerStates
from towpath.log.object.range_cache import RangeCache
from towpath.log.object.reader import Reader
from towpath.log.object.settings import ObjectLogSettings
from towpath.log.object.staging import Staging
from towpath.log.object.stream_filter import (
    Freshen,
    StreamFilter,
    always_fresh,
    every_stream,
)
from towpath.log.object.time_index import TimeIndex
from towpath.log.object.usage import stream_usage
from towpath.log.object.wal_reader import WalReader
from towpath.log.object.writer import Checkpoint, DomainWriter
from towpath.metadata.store import MetadataError, MetadataStore
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo
from towpath.runtime import Runtime

_MIX = 0x9E37_79B9_7F4A_7C15
LOG_END = -1


def domain_of(stream_id: int, domain_count: int) -> int:
    """The MetaDomain of a stream: a fixed mix of its id, so that neighbours spread."""
    mixed = (stream_id * _MIX) & 0xFFFF_FFFF_FFFF_FFFF
    return (mixed >> 32) % domain_count


class ObjectLog(Log):
    """Writers by domain, one reader, and the caches they share."""

    def __init__(
        self,
        store: MetadataStore,
        objects: ObjectStore,
        runtime: Runtime,
        settings: ObjectLogSettings,
        metrics: Metrics,
        *,
        live: StreamFilter = every_stream,
        freshen: Freshen = always_fresh,
        checkpoint: Checkpoint = lambda step: None,
    ) -> None:
        self._store = store
        self._growth = Growth()
        self._index = Index(store, IndexCache(settings.index_cache_bytes, metrics), self._growth)
        ranges = RangeCache(settings.range_cache_bytes, metrics)
        damage = Damage(metrics)
        wal = WalReader(objects, ranges, damage)
        parquet = ParquetReader(objects, runtime, settings.parquet_cache_bytes, damage, metrics)
        self._reader = Reader(self._index, wal, parquet, damage)
        self._times = TimeIndex(self._index, self._reader, ParquetTimes(parquet))
        self._producers = ProducerStates(store, runtime, settings.producer_expiry_ms)
        self._lost = LostSequences(runtime.clock)
        self._room = Room(settings.max_buffer_bytes, metrics)
        self._writers = []
        for domain in range(store.domain_count):
            staging = Staging(domain, store, objects, runtime, settings, freshen)
            committer = Committer(
                domain,
                store,
                staging,
                self._index,
                ranges,
                self._producers,
                self._lost,
                live,
                runtime,
                settings,
                metrics,
            )
            self._writers.append(
                DomainWriter(
                    domain,
                    objects,
                    staging,
                    committer,
                    self._room,
                    runtime,
                    settings,
                    metrics,
                    checkpoint,
                )
            )

    async def start(self) -> None:
        """Reserve walIds; the log works without, but its first flush is slower."""
        for writer in self._writers:
            await writer.prepare()

    def admit(self, size_bytes: int) -> Awaitable[None] | None:
        return self._room.admit(size_bytes)

    def append_for(self, stream_id: int, batch: BatchInfo, receipt: Receipt) -> None:
        writer = self._writers[domain_of(stream_id, len(self._writers))]
        writer.append(stream_id, batch, receipt)

    def note_refused(
        self, stream_id: int, producer_id: int, producer_epoch: int, sequence: int
    ) -> None:
        self._lost.note(stream_id, producer_id, producer_epoch, sequence)

    async def bounds(self, stream_ids: Sequence[int]) -> list[Bounds]:
        try:
            return await self._index.bounds(stream_ids)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def read(
        self, stream_id: int, offset: int, max_bytes: int, *, min_one: bool
    ) -> ReadResult:
        return await self._reader.read(stream_id, offset, max_bytes, min_one=min_one)

    def wait_for_growth(
        self, positions: Sequence[tuple[int, int]], wake: asyncio.Event
    ) -> GrowthWatch:
        return self._growth.register(positions, wake)

    async def offset_for_time(self, stream_id: int, timestamp_ms: int) -> TimestampedOffset | None:
        try:
            return await self._times.first_at_or_after(stream_id, timestamp_ms)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def offset_of_max_timestamp(self, stream_id: int) -> TimestampedOffset | None:
        try:
            return await self._times.greatest(stream_id)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def timestamp_at(self, stream_id: int, offset: int, *, within_ms: int) -> int | None:
        try:
            return await self._times.at_offset(stream_id, offset, within_ms)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def delete_before(self, stream_id: int, offset: int) -> int:
        (bounds,) = await self.bounds((stream_id,))
        wanted = bounds.end if offset == LOG_END else offset
        if not 0 <= wanted <= bounds.end:
            raise OffsetOutOfRange(offset, bounds.start, bounds.end)
        try:
            return await self._index.advance_log_start(stream_id, wanted)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def usage(self, stream_ids: Sequence[int]) -> list[StreamUsage]:
        bounds = await self.bounds(stream_ids)
        try:
            return [
                await stream_usage(self._index, stream_id, bound)
                for stream_id, bound in zip(stream_ids, bounds, strict=True)
            ]
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def save_producers(self, stream_id: int, upto_offset: int) -> None:
        """Save the stream's producer state, so that entries up to the offset may be removed."""
        await self._producers.save(stream_id, upto_offset)

    async def close(self) -> None:
        self._room.close()
        for writer in self._writers:
            await writer.close()
        self._index.close()
