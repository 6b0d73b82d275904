"""What is due: ranges of a stream that still lie in WAL objects, and small neighbouring files.

The planner only reads. What it remembers of a stream (where its WAL part begins) is a hint that
saves reading the index from its start; every plan is made of entries read just now.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from towpath.gc.entries import EntryRow, decode_row
from towpath.gc.paging import scan_pages
from towpath.lakehouse.plan import JobKind, ParquetFile, WalChunk
from towpath.lakehouse.settings import PipelineSettings
from towpath.metadata.keys import compaction, streams
from towpath.metadata.keys.compaction import Cleaned
from towpath.metadata.proto.index_pb2 import PARQUET, WAL
from towpath.metadata.store import MetadataStore, Tail
from towpath.runtime import Runtime
from towpath.topics.interface import Topic, TopicSettings

SMALL_SHARE = 0.75
"""A file below this share of the target size is small."""
TIER_FACTOR = 8
"""Small files are merged with neighbours of about their size, so that none is rewritten often."""
TIER_FLOOR_BYTES = 1 << 20
STREAMS_PER_READ = 500


@dataclass(frozen=True, slots=True)
class Range:
    """Entries of a stream, one after the other, that one task shall replace."""

    kind: JobKind
    topic: Topic
    partition: int
    entries: tuple[EntryRow, ...]
    tombstones_below: int = 0
    """Key compaction: markers of deleted keys below this offset may go."""
    is_cut: bool = False
    """Whether more of the stream is waiting than one task takes."""

    @property
    def start(self) -> int:
        return start_of(self.entries[0])

    @property
    def end(self) -> int:
        return self.entries[-1].offset_end

    @property
    def wal_bytes(self) -> int:
        """What the range took in WAL form."""
        return sum(wal_bytes_of(entry) for entry in self.entries)

    @property
    def file_bytes(self) -> int:
        """The size of the range's Parquet files."""
        return sum(parquet_bytes_of(entry) for entry in self.entries)

    @property
    def chunks(self) -> tuple[WalChunk, ...]:
        """Where the batches of the WAL entries lie."""
        return tuple(chunk_of(entry) for entry in self.entries if is_wal(entry))

    @property
    def files(self) -> tuple[ParquetFile, ...]:
        """The files of the Parquet entries."""
        return tuple(file for entry in self.entries for file in files_of(entry))


@dataclass(slots=True)
class _Known:
    """What was seen of a stream: where its WAL part begins, and since when."""

    offset: int
    cumulative_size: int
    oldest_at_ms: int | None = None
    """When the first WAL entry was written; None if it has not been read."""


class Planner:
    """Finds due ranges."""

    def __init__(self, store: MetadataStore, runtime: Runtime, settings: PipelineSettings) -> None:
        self._store = store
        self._clock = runtime.clock
        self._settings = settings
        self._known: dict[int, _Known] = {}
        self.backlog_bytes = 0
        """WAL bytes of all streams when `due_streams` was last asked."""

    async def due_streams(self, topics: Sequence[Topic]) -> list[tuple[Topic, int]]:
        """Topic and partition of every stream with a due WAL range, the longest waiting first."""
        places = [(topic, number) for topic in topics for number in range(topic.partitions)]
        self._forget_all_but({topic.stream(number) for topic, number in places})
        due: list[tuple[int, Topic, int]] = []
        self.backlog_bytes = 0
        for at in range(0, len(places), STREAMS_PER_READ):
            some = places[at : at + STREAMS_PER_READ]
            tails = await self._store.tails([topic.stream(number) for topic, number in some])
            for (topic, number), tail in zip(some, tails, strict=True):
                since_ms = await self._due_since(topic.stream(number), tail)
                if since_ms is not None:
                    due.append((since_ms, topic, number))
        due.sort(key=lambda found: (found[0], found[1].number, found[2]))
        return [(topic, number) for _, topic, number in due]

    async def wal_range(self, topic: Topic, partition: int) -> Range | None:
        """The first WAL entries of the stream, as many as one task takes; None without any."""
        stream = topic.stream(partition)
        settings = self._settings
        taken: list[EntryRow] = []
        size_bytes = 0
        is_cut = False
        async for entry in self._entries(stream, self._known_offset(stream)):
            if not is_wal(entry):
                if taken:
                    break
                self._passed(stream, entry)
                continue
            if taken and (
                start_of(entry) != taken[-1].offset_end
                or size_bytes + wal_bytes_of(entry) > settings.job_max_bytes
                or len(taken) >= settings.job_max_entries
            ):
                is_cut = True
                break
            taken.append(entry)
            size_bytes += wal_bytes_of(entry)
        if not taken:
            return None
        return Range(JobKind.COMPACT, topic, partition, tuple(taken), is_cut=is_cut)

    async def small_files(self, topic: Topic, partition: int) -> Range | None:
        """Neighbouring Parquet entries that are worth being one, the first such run; or None."""
        small_bytes = SMALL_SHARE * self._settings.target_file_bytes
        run: list[EntryRow] = []
        async for entry in self._entries(topic.stream(partition), -1):
            is_small = is_parquet(entry) and parquet_bytes_of(entry) < small_bytes
            if is_small and (not run or start_of(entry) == run[-1].offset_end):
                run.append(entry)
                continue
            if found := self._mergeable(run):
                return Range(JobKind.REWRITE, topic, partition, found)
            run = [entry] if is_small else []
        found = self._mergeable(run)
        return Range(JobKind.REWRITE, topic, partition, found) if found else None

    async def behind(self, topic: Topic, partition: int, stamp: str) -> Range | None:
        """The first neighbouring Parquet entries whose files have other typed columns than those of
        the stamp, as many as one task takes; or None."""
        taken: list[EntryRow] = []
        size_bytes = 0
        async for entry in self._entries(topic.stream(partition), -1):
            if not has_other_columns(entry, stamp):
                if taken:
                    break
                continue
            if taken and (
                start_of(entry) != taken[-1].offset_end
                or size_bytes + parquet_bytes_of(entry) > self._settings.job_max_bytes
                or len(taken) >= self._settings.job_max_entries
            ):
                break
            taken.append(entry)
            size_bytes += parquet_bytes_of(entry)
        return Range(JobKind.REWRITE, topic, partition, tuple(taken)) if taken else None

    async def superseded_keys(self, topic: Topic, partition: int) -> Range | None:
        """The compacted part of a stream whose keys should be compacted now; or None.

        The newest records, those in WAL form and those younger than `min.compaction.lag.ms`, are
        not looked at. What is left is due when the part that was never compacted has its share of
        it, or is older than `max.compaction.lag.ms`.
        """
        stream = topic.stream(partition)
        settings, now_ms = topic.settings, self._clock.now_ms()
        found = await self._store.get(compaction.cleaned(stream))
        cleaned = Cleaned.decode(found.value) if found is not None else Cleaned()
        taken: list[EntryRow] = []
        async for entry in self._entries(stream, -1):
            if not is_parquet(entry) and not taken:
                continue  # A tombstone that retention left at the front.
            if (
                not is_parquet(entry)
                or (taken and start_of(entry) != taken[-1].offset_end)
                or newest_ms(entry) > now_ms - settings.min_compaction_lag_ms
            ):
                break
            taken.append(entry)
        dirty = [entry for entry in taken if entry.offset_end > cleaned.end]
        tombstones_below = cleaned.first_cleaned_before(now_ms - settings.delete_retention_ms)
        if not dirty or not _is_cleanable(taken, dirty, settings, now_ms):
            return None
        return Range(
            JobKind.KEY_COMPACT, topic, partition, tuple(taken), tombstones_below=tombstones_below
        )

    def _mergeable(self, run: Sequence[EntryRow]) -> tuple[EntryRow, ...]:
        """The end of a run of small entries that should be merged: its largest size class that has
        enough members, and whatever smaller lies between and behind them.

        New files are the smallest and come last. A file is rewritten once per class it passes, not
        once per round.
        """
        tiers = [tier_of(parquet_bytes_of(entry)) for entry in run]
        for tier in sorted(set(tiers), reverse=True):
            larger = [at for at, found in enumerate(tiers) if found > tier]
            first = larger[-1] + 1 if larger else 0
            if tiers[first:].count(tier) >= self._settings.max_files_per_partition:
                return self._within_job(run[first:])
        return ()

    def _within_job(self, entries: Sequence[EntryRow]) -> tuple[EntryRow, ...]:
        """As many of the entries as one task may take, at least two."""
        size_bytes = 0
        for count, entry in enumerate(entries):
            size_bytes += parquet_bytes_of(entry)
            if count >= 2 and size_bytes > self._settings.job_max_bytes:
                return tuple(entries[:count])
        return tuple(entries[: self._settings.job_max_entries])

    async def _entries(self, stream: int, offset: int) -> AsyncIterator[EntryRow]:
        """Entries with `offset_end > offset`, in order."""
        start = (
            streams.index_prefix(stream)
            if offset < 0
            else streams.first_entry_above(stream, offset)
        )
        async for page in scan_pages(self._store, start, streams.index_end(stream)):
            for row in page:
                yield decode_row(row)

    async def _due_since(self, stream: int, tail: Tail) -> int | None:
        """Since when a stream's WAL part is due; None if it is not."""
        known = self._known.get(stream)
        if tail.offset_end == (known.offset if known is not None else 0):
            return None
        if known is None or known.oldest_at_ms is None:
            known = await self._look(stream)
        if known.oldest_at_ms is None:
            return None
        wal_bytes = tail.cumulative_size - known.cumulative_size
        self.backlog_bytes += wal_bytes
        due_at_ms = known.oldest_at_ms + self._settings.wal_max_age_ms
        if wal_bytes >= self._settings.wal_max_bytes:
            due_at_ms = known.oldest_at_ms
        return due_at_ms if due_at_ms <= self._clock.now_ms() else None

    async def _look(self, stream: int) -> _Known:
        """Read where the WAL part begins now."""
        known = self._known.setdefault(stream, _Known(-1, 0))
        async for entry in self._entries(stream, known.offset):
            if is_wal(entry):
                known.oldest_at_ms = entry.message.created_at_ms
                known.cumulative_size = entry.cumulative_size - wal_bytes_of(entry)
                break
            self._passed(stream, entry)
        return known

    def _known_offset(self, stream: int) -> int:
        known = self._known.get(stream)
        return known.offset if known is not None else -1

    def _passed(self, stream: int, entry: EntryRow) -> None:
        """An entry that is not WAL any more lies before the WAL part."""
        self.swapped(stream, entry.offset_end, entry.cumulative_size)

    def swapped(self, stream: int, offset_end: int, cumulative_size: int) -> None:
        """The stream's entries up to an offset are Parquet now."""
        known = self._known.get(stream)
        if known is None or known.offset < offset_end:
            self._known[stream] = _Known(offset_end, cumulative_size)

    def _forget_all_but(self, alive: set[int]) -> None:
        if len(self._known) > len(alive):
            self._known = {
                stream: known for stream, known in self._known.items() if stream in alive
            }


def _is_cleanable(
    taken: Sequence[EntryRow], dirty: Sequence[EntryRow], settings: TopicSettings, now_ms: int
) -> bool:
    """Whether enough of the entries, or old enough ones, were never compacted."""
    if oldest_ms(dirty[0]) <= now_ms - settings.max_compaction_lag_ms:
        return True
    dirty_bytes = sum(parquet_bytes_of(entry) for entry in dirty)
    all_bytes = sum(parquet_bytes_of(entry) for entry in taken)
    return dirty_bytes > 0 and dirty_bytes >= settings.min_cleanable_dirty_ratio * all_bytes


def newest_ms(entry: EntryRow) -> int:
    """The time of the entry's newest record, or of its writing if no record has one."""
    return max(entry.message.max_timestamp_ms, 0) or entry.message.created_at_ms


def oldest_ms(entry: EntryRow) -> int:
    """The time of the entry's oldest record, or of its writing if no record has one."""
    return max(entry.message.min_timestamp_ms, 0) or entry.message.created_at_ms


def is_wal(entry: EntryRow) -> bool:
    """Whether the entry's records lie in a WAL object."""
    return entry.message.file_type == WAL


def is_parquet(entry: EntryRow) -> bool:
    """Whether the entry's records lie in Parquet files."""
    return entry.message.file_type == PARQUET


def has_other_columns(entry: EntryRow, stamp: str) -> bool:
    """Whether a file of the entry has other typed columns than those of the stamp."""
    return is_parquet(entry) and any(file.value_stamp != stamp for file in entry.message.parquet)


def start_of(entry: EntryRow) -> int:
    """The first offset of the entry."""
    return entry.offset_end - entry.message.record_count


def wal_bytes_of(entry: EntryRow) -> int:
    """What the entry's records take, or took, in WAL form."""
    message = entry.message
    return message.wal.chunk_length if is_wal(entry) else message.wal_bytes


def parquet_bytes_of(entry: EntryRow) -> int:
    """The size of the entry's files."""
    return sum(file.size_bytes for file in entry.message.parquet)


def tier_of(size_bytes: int) -> int:
    """The size class of a small file."""
    tier, limit = 0, TIER_FLOOR_BYTES
    while size_bytes > limit:
        tier, limit = tier + 1, limit * TIER_FACTOR
    return tier


def chunk_of(entry: EntryRow) -> WalChunk:
    """Where the entry's batches lie."""
    start, wal = start_of(entry), entry.message.wal
    return WalChunk(
        wal.path,
        tuple(
            (start + row.start_offset_delta, wal.chunk_offset + row.offset_in_chunk, row.length)
            for row in wal.batches
        ),
    )


def files_of(entry: EntryRow) -> list[ParquetFile]:
    """The entry's files, as far as the index knows them."""
    start = start_of(entry)
    return [
        ParquetFile(
            path=file.path,
            size_bytes=file.size_bytes,
            footer_bytes=file.footer_bytes,
            record_count=file.record_count,
            first_offset=start + file.first_offset_delta,
            last_offset=start + file.last_offset_delta,
            min_timestamp_ms=file.min_timestamp_ms,
            max_timestamp_ms=file.max_timestamp_ms,
            value_stamp=file.value_stamp,
        )
        for file in entry.message.parquet
    ]
