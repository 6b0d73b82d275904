"""Batches of Parquet entries: footers and row groups are read, decoded and kept for a while.

A fetch at an offset needs one piece (see `parquet_layout`). Its bytes are read in ranges of
bounded size, decoded in threads, and the batches cached; two fetches of one piece decode it once.
This module runs on the event loop and loads neither pyarrow nor numba: the threads do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from towpath.errors import LogUnavailable
from towpath.log.object.damage import Damage, Moved
from towpath.log.object.decoded_cache import DecodedCache
from towpath.log.object.entries import Entry
from towpath.log.object.parquet_batches import Batches, void_batches
from towpath.log.object.parquet_cache import BatchCache, Found, PieceKey, from_offset
from towpath.log.object.parquet_damage import BrokenParquet
from towpath.log.object.parquet_layout import (
    ByteRange,
    Footer,
    Layout,
    Part,
    Piece,
    RowGroup,
    lay_out,
)
from towpath.log.object.single_flight import SingleFlight
from towpath.log.object.stretches import DataFile, Stretch
from towpath.log.object.together import together
from towpath.objects.store import ObjectNotFound, ObjectStore, ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime

if TYPE_CHECKING:
    from towpath.log.object.parquet_decode import Rows

P = ParamSpec("P")
R = TypeVar("R")
Fetched = tuple[Sequence[ByteRange], Sequence[memoryview]]
"""Ranges of an object and their bytes."""

MAX_READ_BYTES = 8 << 20
MAX_PARALLEL_READS = 8
MAX_PARALLEL_PIECES = 4
"""Pieces in work at once. Each takes its bytes three times: as read, as rows and as batches."""
MAX_FOOTER_BYTES = 64 << 20
FOOTER_CACHE_BYTES = 16 << 20
FOOTER_GROWTH = 12
"""How many times its stored size a parsed footer takes in memory, about."""
SHARED_PART = 4
"""One part in so many of the cache is for row groups that several pieces need."""


class ParquetReader:
    """Serves Parquet entries. Raises Moved, LogDamaged, LogUnavailable."""

    def __init__(
        self,
        objects: ObjectStore,
        runtime: Runtime,
        cache_bytes: int,
        damage: Damage,
        metrics: Metrics,
    ) -> None:
        self._objects = objects
        self._offload = runtime.offload
        self._damage = damage
        self._reads = asyncio.Semaphore(MAX_PARALLEL_READS)
        self._work = asyncio.Semaphore(MAX_PARALLEL_PIECES)
        shared_bytes = cache_bytes // SHARED_PART
        self._layouts: DecodedCache[PieceKey, Layout] = DecodedCache(
            "parquet-footers", FOOTER_CACHE_BYTES, _layout_bytes, metrics
        )
        self._batches = BatchCache(cache_bytes - shared_bytes, metrics)
        self._decodes: SingleFlight[PieceKey, Sequence[Batches]] = SingleFlight()
        self._shared_rows: DecodedCache[tuple[str, int], Rows] = DecodedCache(
            "parquet-rows", shared_bytes, lambda rows: rows.size_bytes(), metrics
        )

    async def batches_from(self, entry: Entry, offset: int) -> Found:
        """Some batches from an offset of the entry on: always the same ones for the same offset.
        Who reads them tells `note_read`."""
        if not entry.stretches:
            key = (entry.key, entry.version, entry.start)
            return Found(key, (void_batches(entry.start, entry.end),))
        layout = await self.layout(entry, entry.stretch_at(offset))
        piece = layout.piece_at(offset)
        key = (entry.key, entry.version, piece.start)
        found = self._batches.get(key, offset)
        if not found:
            decoded = await self._decodes.run(key, lambda: self._decode(entry, piece, key, offset))
            found = from_offset(decoded, offset)
        return Found(key, found)

    def note_read(self, found: Found, upto: int) -> None:
        """What was found was read up to an offset: before it, it is not needed any more."""
        self._batches.note_read(found.key, upto)

    async def layout(self, entry: Entry, stretch: Stretch) -> Layout:
        """How the row groups of a stretch of the entry divide it."""
        key = (entry.key, entry.version, stretch.start)
        return await self._layouts.get(key, lambda: self._lay_out(entry, stretch))

    async def search(
        self,
        entry: Entry,
        footer: Footer,
        group: RowGroup,
        look: Callable[
            Concatenate[Footer, RowGroup, Sequence[ByteRange], Sequence[memoryview], P], R
        ],
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        """What `look` finds in the offsets and timestamps of a row group, in a thread."""
        async with self._work:
            fetched = await self._fetch(entry, footer.file, group.time_columns)
            return await self._run(
                entry, footer.file, look, footer, group, *fetched, *args, **options
            )

    async def _lay_out(self, entry: Entry, stretch: Stretch) -> Layout:
        footers = await together([self._footer(entry, file) for file in stretch.files])
        return lay_out(stretch, footers)

    async def _footer(self, entry: Entry, file: DataFile) -> Footer:
        """The parsed footer: one read, unless it is huge."""
        if not 0 < file.footer_bytes <= min(file.size_bytes, MAX_FOOTER_BYTES):
            raise self._damage.of_object(entry, file.path, "has no footer")
        if not entry.start <= file.first_offset <= file.last_offset < entry.end:
            raise self._damage.of_object(entry, file.path, "lies outside its index entry")
        at = ByteRange(file.size_bytes - file.footer_bytes, file.footer_bytes)
        _, tail = await self._fetch(entry, file, (at,))
        return await self._run(entry, file, _parse_footer, file, tail)

    async def _decode(
        self, entry: Entry, piece: Piece, key: PieceKey, offset: int
    ) -> Sequence[Batches]:
        async with self._work:
            rows = [await self._rows(entry, part) for part in piece.parts]
            file = piece.parts[0].footer.file
            slices = await self._run(entry, file, _build, rows, piece.start, piece.end)
        self._batches.add(key, slices, offset)
        return slices

    async def _rows(self, entry: Entry, part: Part) -> Rows:
        if not part.is_shared:
            return await self._read_rows(entry, part)
        key = (part.footer.file.path, part.group.number)
        return await self._shared_rows.get(key, lambda: self._read_rows(entry, part))

    async def _read_rows(self, entry: Entry, part: Part) -> Rows:
        footer, group, _ = part
        fetched = await self._fetch(entry, footer.file, group.columns)
        return await self._run(entry, footer.file, _read_rows, footer, group, *fetched)

    async def _fetch(self, entry: Entry, file: DataFile, ranges: Sequence[ByteRange]) -> Fetched:
        """The bytes of the ranges, in reads of bounded size."""
        wanted = [
            ByteRange(position, min(MAX_READ_BYTES, at.end - position))
            for at in ranges
            for position in range(at.position, at.end, MAX_READ_BYTES)
        ]
        return wanted, await together([self._read(entry, file, at) for at in wanted])

    async def _read(self, entry: Entry, file: DataFile, at: ByteRange) -> memoryview:
        async with self._reads:
            try:
                return await self._objects.read(file.path, at.position, at.length)
            except ObjectNotFound as error:
                raise Moved(entry, file.path) from error
            except ObjectStoreError as error:
                await self._check_size(entry, file)
                raise LogUnavailable(f"cannot read {file.path}: {error}") from error

    async def _check_size(self, entry: Entry, file: DataFile) -> None:
        """A failed read may mean that the object is shorter than the index says: LogDamaged."""
        try:
            size_bytes = (await self._objects.stat(file.path)).size_bytes
        except ObjectStoreError:
            return
        if size_bytes != file.size_bytes:
            what = f"has {size_bytes} bytes instead of {file.size_bytes}"
            raise self._damage.of_object(entry, file.path, what)

    async def _run(
        self, entry: Entry, file: DataFile, work: Callable[P, R], *args: P.args, **options: P.kwargs
    ) -> R:
        """Do work on a file's bytes in a thread."""
        try:
            return await self._offload(work, *args, **options)
        except BrokenParquet as error:
            raise self._damage.of_object(entry, file.path, str(error)) from error
        except MemoryError as error:
            raise LogUnavailable(f"no memory to decode {file.path}") from error


def _layout_bytes(layout: Layout) -> int:
    return FOOTER_GROWTH * sum([footer.file.footer_bytes for footer in layout.footers])


# In threads, where the imports happen that take long


def _parse_footer(file: DataFile, tail: Sequence[memoryview]) -> Footer:
    from towpath.log.object.parquet_footer import parse_footer

    return parse_footer(file, tail[0] if len(tail) == 1 else b"".join(tail))


def _read_rows(
    footer: Footer, group: RowGroup, ranges: Sequence[ByteRange], buffers: Sequence[memoryview]
) -> Rows:
    from towpath.log.object.parquet_decode import read_rows

    return read_rows(footer, group, ranges, buffers)


def _build(groups: Sequence[Rows], start: int, end: int) -> list[Batches]:
    from towpath.log.object.parquet_decode import build

    return build(groups, start, end)
