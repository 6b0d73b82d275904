"""Retention: expired entries leave the log, oldest first, as Kafka's whole segments do.

The log start moves first, by compare-and-set and never back; then the entries below it go, also
those that DeleteRecords left there. Every step can be repeated by any broker at any time.
"""

from __future__ import annotations

from bisect import bisect_right

import structlog
from google.protobuf.message import DecodeError

from towpath.gc.entries import (
    EntryRow,
    SaveProducers,
    advance_log_start,
    decode_row,
    read_log_start,
    release_entries,
)
from towpath.gc.paging import scan_pages
from towpath.gc.summary import Summary
from towpath.log.object.entries import UnknownEntry
from towpath.metadata.keys import streams
from towpath.metadata.store import MetadataStore, Tail
from towpath.runtime import Runtime
from towpath.topics.interface import Topics, TopicSettings

ENTRIES_PER_ROUND = 20_000
"""Entries that a round releases at most; the next round goes on where it stopped."""
ENTRIES_PER_STEP = 1_000
STREAMS_PER_READ = 500
UNLIMITED = -1

logger = structlog.get_logger(__name__)


class Retention:
    """Enforces `retention.ms` and `retention.bytes`, and sweeps what lies below the log start."""

    def __init__(
        self,
        store: MetadataStore,
        topics: Topics,
        save_producers: SaveProducers,
        runtime: Runtime,
        *,
        entries_per_round: int = ENTRIES_PER_ROUND,
    ) -> None:
        self._store = store
        self._topics = topics
        self._save_producers = save_producers
        self._clock = runtime.clock
        self._entries_per_round = entries_per_round
        self._last_stream = -1

    async def run_once(self) -> Summary:
        """One pass over all streams, or a part of one if there is much to release."""
        # A cache that is behind could apply a setting that somebody has just loosened.
        await self._topics.refresh()
        settings = {
            topic.stream(partition): topic.settings
            for topic in self._topics.all()
            for partition in range(topic.partitions)
        }
        order = sorted(settings)
        order = order[bisect_right(order, self._last_stream) :]
        released = examined = 0
        for start in range(0, len(order), STREAMS_PER_READ):
            some = order[start : start + STREAMS_PER_READ]
            tails = await self._store.tails(some)
            for stream_id, tail in zip(some, tails, strict=True):
                examined += 1
                if tail.offset_end > 0:
                    left = self._entries_per_round - released
                    released += await self._tend(stream_id, settings[stream_id], tail, left)
                if released >= self._entries_per_round:
                    self._last_stream = stream_id - 1  # This one may not be finished.
                    return Summary(examined, released, more=True)
        finished_pass = self._last_stream < 0
        self._last_stream = -1
        return Summary(examined, released, more=not finished_pass)

    async def _tend(
        self, stream_id: int, settings: TopicSettings, tail: Tail, entries_max: int
    ) -> int:
        try:
            return await self._expire(stream_id, settings, tail, entries_max)
        except (UnknownEntry, DecodeError, ValueError) as error:
            # Its data stays, which is safe, and the other streams go on.
            logger.error("retention skips a stream", stream_id=stream_id, error=str(error))
            return 0

    async def _expire(
        self, stream_id: int, settings: TopicSettings, tail: Tail, entries_max: int
    ) -> int:
        log_start = await read_log_start(self._store, stream_id)
        upto = await self._expired_upto(stream_id, settings, tail, log_start, entries_max)
        if upto > log_start:
            log_start = await advance_log_start(self._store, stream_id, upto)
        released = 0
        while released < entries_max:
            limit = min(ENTRIES_PER_STEP, entries_max - released)
            count = await release_entries(
                self._store, stream_id, log_start, self._save_producers, limit=limit
            )
            released += count
            if count < limit:
                break
        return released

    async def _expired_upto(
        self,
        stream_id: int,
        settings: TopicSettings,
        tail: Tail,
        log_start: int,
        entries_max: int,
    ) -> int:
        """The end of the last entry that must go now; the log start if none must."""
        limits = (settings.retention_ms, settings.retention_bytes)
        if not settings.delete or limits == (UNLIMITED, UNLIMITED):
            return log_start
        now_ms = self._clock.now_ms()
        upto = log_start
        start = streams.first_entry_above(stream_id, log_start)
        examined = 0
        async for page in scan_pages(self._store, start, streams.index_end(stream_id)):
            for row in page:
                entry = decode_row(row)
                if not is_expired(entry, settings, tail, now_ms) or examined >= entries_max:
                    return upto
                upto = entry.offset_end
                examined += 1
        return upto


def is_expired(entry: EntryRow, settings: TopicSettings, tail: Tail, now_ms: int) -> bool:
    """Whether Kafka would delete this entry if it were a segment and the oldest.

    By time: its newest record (its creation, if no record has a timestamp) is older than
    `retention.ms`. By size: what remains after it still fills `retention.bytes`.
    """
    if settings.retention_ms != UNLIMITED:
        newest_ms = entry.message.max_timestamp_ms
        if newest_ms < 0:
            newest_ms = entry.message.created_at_ms
        if now_ms - newest_ms > settings.retention_ms:
            return True
    if settings.retention_bytes == UNLIMITED:
        return False
    return tail.cumulative_size - entry.cumulative_size >= settings.retention_bytes
