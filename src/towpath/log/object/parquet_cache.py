"""Batches made of Parquet files, kept for the fetches that go on where the last one stopped.

A piece is decoded as a whole and read in many fetches, in turn with pieces of other partitions.
With more pieces in use than fit, forgetting the least recently used one would make every fetch
decode its piece again. So pieces are kept in slices, and the slice goes that is needed last: one
that was read already, else the end of the piece that has most left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from towpath.log.object.parquet_batches import Batches
from towpath.observe.metrics import Metrics

PieceKey = tuple[str, int, int]
"""An entry's key and version, and the offset at which a piece of it starts."""
MAX_LOOKS = 64
"""Among so many pieces, the least recently used, one is chosen that loses a slice. A piece that was
not read while so many were decoded has no reader any more."""


class Found(NamedTuple):
    """Slices of a piece, one after the other."""

    key: PieceKey
    slices: Sequence[Batches]


class _Kept:
    """Slices of a piece, how far it was read, and when."""

    __slots__ = ("read_at", "read_upto", "slices")

    def __init__(self, slices: Sequence[Batches], read_upto: int, read_at: int) -> None:
        self.slices = list(slices)
        self.read_upto = read_upto
        self.read_at = read_at

    @property
    def was_read(self) -> bool:
        """Whether the first slice lies behind the reader."""
        return self.slices[0].end <= self.read_upto


class BatchCache:
    """Slices by piece, bounded by bytes."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._pieces: OrderedDict[PieceKey, _Kept] = OrderedDict()
        self._added = 0
        self._hits = metrics.cache_hits.labels("parquet")
        self._misses = metrics.cache_misses.labels("parquet")
        metrics.cache_bytes.labels("parquet").set_function(lambda: self._size_bytes)

    def get(self, key: PieceKey, offset: int) -> Sequence[Batches]:
        """The slice that contains the offset and those kept after it; empty if it is not kept."""
        kept = self._pieces.get(key)
        found = () if kept is None else from_offset(kept.slices, offset)
        (self._hits if found else self._misses).inc()
        return found

    def add(self, key: PieceKey, slices: Sequence[Batches], offset: int) -> None:
        """Keep a piece that was decoded for a read at `offset`, as far as there is room."""
        before = self._pieces.pop(key, None)
        if before is not None:
            self._size_bytes -= sum([part.size_bytes for part in before.slices])
        self._added += 1
        self._pieces[key] = _Kept(slices, offset, self._added)
        self._size_bytes += sum([part.size_bytes for part in slices])
        while self._size_bytes > self._max_bytes:
            self._drop_one()

    def note_read(self, key: PieceKey, upto: int) -> None:
        """The piece was read up to an offset; its reader will go on there."""
        kept = self._pieces.get(key)
        if kept is not None:
            kept.read_upto, kept.read_at = upto, self._added
            self._pieces.move_to_end(key)

    def _drop_one(self) -> None:
        oldest = islice(self._pieces.items(), MAX_LOOKS)
        key, kept = min(oldest, key=self._loses_first)
        dropped = kept.slices.pop(0 if kept.was_read else -1)
        self._size_bytes -= dropped.size_bytes
        if not kept.slices:
            del self._pieces[key]

    def _loses_first(self, item: tuple[PieceKey, _Kept]) -> tuple[bool, int]:
        """The smallest loses a slice: one that is not needed any more, else who has most left."""
        _, kept = item
        is_needed = not kept.was_read and self._added - kept.read_at < MAX_LOOKS
        return is_needed, -len(kept.slices)


def from_offset(slices: Sequence[Batches], offset: int) -> Sequence[Batches]:
    """The slice that contains the offset and those after it; empty if none does."""
    if not slices or offset < slices[0].start:
        return ()
    return [part for part in slices if part.end > offset]
