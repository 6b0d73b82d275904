"""Divides a plan into slices of about the same size, for as many workers as like to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from towpath.reading.parts import Part, PartitionPlan, WalPart

SLICE_BYTES_MIN: Final = 4 << 20
"""A worker's start costs about as much as reading this."""
SLICE_BYTES_MAX: Final = 128 << 20
"""Beyond it there are more slices than workers: what is lost with a worker is read again."""
SLACK: Final = 0.1
"""Of a slice: a file is not cut for less, because both who read it then decode the rows around the
cut."""


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
    """The plans' parts in slices of about the same size: each part is in one of them, and large
    files are cut. As many as there are workers, or several for each; fewer if they would be
    small."""
    pieces = [(plan.partition, part) for plan in plans for part in plan.parts]
    total_bytes = sum(stored_bytes(part) for _, part in pieces)
    if not pieces:
        return []
    share_bytes = total_bytes / _count(total_bytes, max(1, workers))
    dealt: dict[int, list[tuple[int, Part]]] = {}
    at = 0.0
    for partition, part in pieces:
        for cut, size_bytes in _cut(part, at, share_bytes):
            # It belongs where its middle lies, and they come in order.
            dealt.setdefault(int((at + size_bytes / 2) / share_bytes), []).append((partition, cut))
            at += size_bytes
    return [_slice(taken) for taken in dealt.values()]


def _count(total_bytes: int, workers: int) -> int:
    """How many slices: the same number for every worker."""
    for_each = -(-total_bytes // (workers * SLICE_BYTES_MAX))
    return max(1, min(workers * for_each, total_bytes // SLICE_BYTES_MIN))


def stored_bytes(part: Part) -> int:
    """What has to be read for the part, about."""
    if isinstance(part, WalPart):
        return part.size_bytes
    file = part.file
    offsets = file.last_offset + 1 - file.first_offset
    wanted = min(part.end, file.last_offset + 1) - max(part.start, file.first_offset)
    return max(1, file.size_bytes * wanted // offsets)


def _cut(part: Part, at: float, share_bytes: float) -> Iterator[tuple[Part, float]]:
    """A part that lies `at` so many bytes from the beginning, with its size; a file in pieces, by
    offset, where slices meet in it and neither piece would be small."""
    size_bytes: float = stored_bytes(part)
    if isinstance(part, WalPart):
        yield part, size_bytes
        return
    start = max(part.start, part.file.first_offset)
    end = min(part.end, part.file.last_offset + 1)
    slack_bytes = share_bytes * SLACK
    first = int((at + slack_bytes) / share_bytes) + 1
    last = int((at + size_bytes - slack_bytes) / share_bytes)
    for number in range(first, last + 1):
        bytes_before = number * share_bytes - at
        middle = min(start + round((end - start) * bytes_before / size_bytes), end)
        if middle > start:
            yield replace(part, start=start, end=middle), bytes_before
        start, at, size_bytes = middle, at + bytes_before, size_bytes - bytes_before
    if end > start:
        yield replace(part, start=start, end=end), size_bytes


def _slice(pieces: Sequence[tuple[int, Part]]) -> Slice:
    runs = groupby(pieces, key=itemgetter(0))
    return Slice(tuple(Run(number, tuple(part for _, part in some)) for number, some in runs))
