"""Divides a plan into slices of about the same size, for as many workers as like to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from towpath.reading.parts import Part, PartitionPlan, WalPart

SLICE_BYTES_MIN: Final = 4 << 20
"""A worker's start costs about as much as reading this."""
SLICE_BYTES_MAX: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """Parts of one partition in the order of the index."""

    partition: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """What one worker reads: of one partition or of several small ones."""

    runs: tuple[Run, ...]


def slices_of(plans: Iterable[PartitionPlan], workers: int) -> list[Slice]:
    """The plans' parts in slices: each part is in one of them, and large files are cut. At least as
    many as there are workers, unless they would be small."""
    pieces = [(plan.partition, part) for plan in plans for part in plan.parts]
    total_bytes = sum(stored_bytes(part) for _, part in pieces)
    wanted_bytes = -(-total_bytes // max(1, workers))
    slice_bytes = min(max(wanted_bytes, SLICE_BYTES_MIN), SLICE_BYTES_MAX)
    slices: list[Slice] = []
    taken: list[tuple[int, Part]] = []
    taken_bytes = 0
    for partition, part in pieces:
        for cut in _cut(part, slice_bytes):
            size_bytes = stored_bytes(cut)
            if taken and taken_bytes + size_bytes > slice_bytes:
                slices.append(_slice(taken))
                taken, taken_bytes = [], 0
            taken.append((partition, cut))
            taken_bytes += size_bytes
    if taken:
        slices.append(_slice(taken))
    return slices


def stored_bytes(part: Part) -> int:
    """What has to be read for the part, about."""
    if isinstance(part, WalPart):
        return part.size_bytes
    file = part.file
    offsets = file.last_offset + 1 - file.first_offset
    wanted = min(part.end, file.last_offset + 1) - max(part.start, file.first_offset)
    return max(1, file.size_bytes * wanted // offsets)


def _cut(part: Part, slice_bytes: int) -> Iterator[Part]:
    """A file that is larger than a slice as parts of about a slice each, by offset."""
    if isinstance(part, WalPart):
        yield part
        return
    count = max(1, round(stored_bytes(part) / slice_bytes))
    start = max(part.start, part.file.first_offset)
    end = min(part.end, part.file.last_offset + 1)
    step = -(-(end - start) // count)
    for at in range(start, end, step):
        yield replace(part, start=at, end=min(at + step, end))


def _slice(pieces: list[tuple[int, Part]]) -> Slice:
    runs: list[Run] = []
    for partition, part in pieces:
        if runs and runs[-1].partition == partition:
            runs[-1] = Run(partition, (*runs[-1].parts, part))
        else:
            runs.append(Run(partition, (part,)))
    return Slice(tuple(runs))
