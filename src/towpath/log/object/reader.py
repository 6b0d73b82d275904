"""Reads: find the entries of a range and get their batches, from WAL objects or Parquet files.

An object may be gone because its range was compacted: then the index is read again, and the read
goes on from where the range lies now. A missing or damaged object that the index still names is an
error that names it, never a gap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from towpath.errors import LogError, LogUnavailable, OffsetOutOfRange
from towpath.log.interface import Bounds, ReadResult
from towpath.log.object.answer import Answer, Span
from towpath.log.object.damage import Damage, Moved
from towpath.log.object.entries import Entry, Row
from towpath.log.object.index import Index
from towpath.log.object.parquet_reader import ParquetReader
from towpath.log.object.together import together
from towpath.log.object.wal_reader import WalReader
from towpath.metadata.store import MetadataError
from towpath.objects.store import Buffer

MAX_MOVED_RETRIES = 3
T = TypeVar("T")


class Reader:
    """Serves ranges of streams."""

    def __init__(
        self, index: Index, wal: WalReader, parquet: ParquetReader, damage: Damage
    ) -> None:
        self._index = index
        self._wal = wal
        self._parquet = parquet
        self._damage = damage

    async def read(
        self, stream_id: int, offset: int, max_bytes: int, *, min_one: bool
    ) -> ReadResult:
        """Whole batches from `offset` on; see `Log.read`."""

        async def attempt() -> ReadResult:
            (bounds,) = await self._index.bounds((stream_id,))
            if not bounds.start <= offset <= bounds.end:
                raise OffsetOutOfRange(offset, bounds.start, bounds.end)
            answer = Answer(max_bytes, min_one=min_one)
            await self._collect(stream_id, offset, bounds, answer)
            buffers = [buffer for found in await self._load(answer) for buffer in found]
            return ReadResult(buffers, sum(map(len, buffers)), bounds)

        try:
            return await self.follow_moves(attempt)
        except MetadataError as error:
            raise LogUnavailable(f"metadata store failed: {error}") from error

    async def follow_moves(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` returns; it is repeated when it finds that an object was moved.

        Raises LogDamaged if an object is gone that the index still names.
        """
        for _ in range(MAX_MOVED_RETRIES):
            try:
                return await attempt()
            except Moved as moved:
                await self._check_moved(moved)
        raise LogUnavailable("objects keep moving")

    async def batch(self, entry: Entry, row: Row) -> Buffer:
        """One batch of a WAL entry. Raises Moved."""
        (found,) = self._wal.cached(entry, (row,)) or await self._wal.load(entry, (row,))
        return found

    async def _collect(self, stream_id: int, offset: int, bounds: Bounds, answer: Answer) -> None:
        """Fill the answer. The sizes of Parquet batches show when they are decoded, so that is done
        here; WAL batches are only named."""
        while offset < bounds.end and not answer.is_full:
            entry = await self._index.find(stream_id, offset)
            if entry is None or entry.start > offset:
                raise await self._explain_gap(stream_id, offset)
            if not entry.is_parquet:
                answer.take_wal(entry, offset)
                offset = entry.end
            while offset < entry.end and not answer.is_full:
                found = await self._parquet.batches_from(entry, offset)
                for batches in found.slices:
                    offset = answer.take_batches(batches, offset)
                self._parquet.note_read(found, offset)

    async def _load(self, answer: Answer) -> list[list[Buffer]]:
        """The buffers of the answer's parts, in order."""
        found = [
            part if isinstance(part, list) else self._wal.cached(*part) for part in answer.parts
        ]
        missing = [at for at, buffers in enumerate(found) if buffers is None]
        if missing:
            spans = [part for at in missing if isinstance(part := answer.parts[at], Span)]
            loaded = await together([self._wal.load(*span) for span in spans])
            for at, buffers in zip(missing, loaded, strict=True):
                found[at] = buffers
        return [buffers for buffers in found if buffers is not None]

    async def _explain_gap(self, stream_id: int, offset: int) -> LogError:
        """Entries vanish only below the log start: anything else is damage, never skipped."""
        (bounds,) = await self._index.bounds((stream_id,))
        if offset < bounds.start:
            return OffsetOutOfRange(offset, bounds.start, bounds.end)
        return self._damage.of_index(stream_id, offset)

    async def _check_moved(self, moved: Moved) -> None:
        """Forget what the cache says of the stream; raise LogDamaged if the index still names the
        object that is gone."""
        entry = moved.entry
        # Others of its entries may be as old as this one.
        self._index.forget(entry.stream_id)
        present = await self._index.find_in_store(entry.stream_id, entry.end - 1)
        if present is not None and present.names(moved.path):
            (bounds,) = await self._index.bounds((entry.stream_id,))
            if bounds.start < entry.end:
                raise self._damage.of_object(entry, moved.path, "is missing")
