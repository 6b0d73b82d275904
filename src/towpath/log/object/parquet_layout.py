"""How the row groups of a stretch divide its offsets: what a fetch at an offset has to decode.

A piece is the unit of decoding: one row group, and where row groups of several files overlap in
their offsets, those that do. Pieces depend on the files alone, so that every fetch of an offset
finds the same batches. Pure values: this module knows of footers, not of Parquet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from towpath.log.object.stretches import DataFile, Stretch


class ByteRange(NamedTuple):
    """Bytes of an object."""

    position: int
    length: int

    @property
    def end(self) -> int:
        """Where the first byte after it lies."""
        return self.position + self.length


class RowGroup(NamedTuple):
    """What a footer tells of a row group. Offsets and times are those of its own records."""

    number: int
    record_count: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    columns: tuple[ByteRange, ...]
    """Where the columns lie that records are made of, in order and without overlap."""
    time_columns: tuple[ByteRange, ...]
    """Where offsets and timestamps lie."""
    has_exact_offsets: bool = True
    """False if the footer has no statistics: then the file's offsets stand for the group's."""


class Footer(NamedTuple):
    """A parsed footer. `metadata` is pyarrow's, opaque here."""

    file: DataFile
    row_groups: tuple[RowGroup, ...]
    metadata: object


class Part(NamedTuple):
    """A row group that a piece needs, and whether other pieces need it too."""

    footer: Footer
    group: RowGroup
    is_shared: bool


class Piece(NamedTuple):
    """Offsets `[start, end)` that are decoded together, and the row groups that hold them."""

    start: int
    end: int
    parts: tuple[Part, ...]


class Layout(NamedTuple):
    """The pieces of a stretch, in order and without gaps."""

    footers: tuple[Footer, ...]
    pieces: tuple[Piece, ...]

    def piece_at(self, offset: int) -> Piece:
        """The piece of an offset of the stretch."""
        return self.pieces[bisect_right(self.pieces, offset, key=attrgetter("start")) - 1]


def lay_out(stretch: Stretch, footers: Sequence[Footer]) -> Layout:
    """Divide the stretch wherever a row group begins."""
    groups = sorted(
        [(footer, group) for footer in footers for group in footer.row_groups],
        key=lambda found: (found[1].first_offset, found[0].file.path, found[1].number),
    )
    cuts = sorted({group.first_offset for _, group in groups})
    cuts[0] = stretch.start
    ends = [*cuts[1:], stretch.end]
    pieces = []
    live: list[tuple[Footer, RowGroup]] = []
    at = 0
    for start, end in zip(cuts, ends, strict=True):
        live = [found for found in live if found[1].last_offset >= start]
        while at < len(groups) and groups[at][1].first_offset < end:
            live.append(groups[at])
            at += 1
        parts = [Part(footer, group, _is_shared(group, start, end)) for footer, group in live]
        pieces.append(Piece(start, end, tuple(parts)))
    return Layout(tuple(footers), tuple(pieces))


def _is_shared(group: RowGroup, start: int, end: int) -> bool:
    return group.first_offset < start or group.last_offset >= end
