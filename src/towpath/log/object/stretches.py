"""The Parquet files of an index entry, ordered so that an offset leads to the files it may be in.

Files of one entry may overlap in their offsets (the table splits by day), and offsets may be
missing between and inside them (key compaction removed their records).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class DataFile(NamedTuple):
    """A Parquet file. Offsets and times are those of its own records, the last ones inclusive."""

    path: str
    size_bytes: int
    footer_bytes: int
    """The file's last bytes that hold the footer, with its length and magic."""
    record_count: int
    first_offset: int
    last_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    value_stamp: str = ""
    """Which typed columns it has (`typed.declaration`); empty without any."""


class Stretch(NamedTuple):
    """Offsets `[start, end)` whose records lie in these files and no others."""

    start: int
    end: int
    files: tuple[DataFile, ...]


def stretches(start: int, end: int, files: Sequence[DataFile]) -> tuple[Stretch, ...]:
    """`[start, end)` divided where no file crosses; offsets without records go to the stretch
    before them, at the very start to the one after them. Empty if there are no files."""
    together: list[list[DataFile]] = []
    reached = -1
    for file in sorted(files, key=lambda file: (file.first_offset, file.path)):
        if not together or file.first_offset > reached:
            together.append([])
        together[-1].append(file)
        reached = max(reached, file.last_offset)
    starts = [start, *(some[0].first_offset for some in together[1:]), end]
    return tuple(
        Stretch(starts[at], starts[at + 1], tuple(some)) for at, some in enumerate(together)
    )
