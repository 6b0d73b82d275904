"""The record batches that rows of a Parquet entry became."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from towpath.log.object.entries import LEADER_EPOCH
from towpath.records.build import empty_batch

if TYPE_CHECKING:
    from towpath.records.from_arrow import Rebuilt

MAX_OFFSET_DELTA = (1 << 31) - 1
BATCH_OVERHEAD_BYTES = 300
"""What a batch takes in memory beside its bytes, about."""


class EmptyBatch(NamedTuple):
    """A batch without records, in place of offsets that hold none any more."""

    base_offset: int
    last_offset: int
    data: bytes


class Batches(NamedTuple):
    """Whole batches that cover `[start, end)` without gaps. Their memory never changes."""

    start: int
    end: int
    batches: Sequence[EmptyBatch] | Sequence[Rebuilt]
    size_bytes: int
    """What they take in memory, about."""

    def from_offset(self, offset: int) -> Sequence[EmptyBatch] | Sequence[Rebuilt]:
        """The batch that contains the offset, and those after it."""
        at = bisect_left(self.batches, offset, key=attrgetter("last_offset"))
        return self.batches[at:]


def cover(start: int, end: int, batches: Sequence[EmptyBatch] | Sequence[Rebuilt]) -> Batches:
    """Put together batches that cover `[start, end)`."""
    size_bytes = sum([len(batch.data) + BATCH_OVERHEAD_BYTES for batch in batches])
    return Batches(start, end, batches, size_bytes)


def void_batches(start: int, end: int) -> Batches:
    """Batches without records for `[start, end)`; a batch cannot span more than 31 bits."""
    batches = []
    for base in range(start, end, MAX_OFFSET_DELTA + 1):
        last = min(base + MAX_OFFSET_DELTA, end - 1)
        data = empty_batch(base, last - base, leader_epoch=LEADER_EPOCH)
        batches.append(EmptyBatch(base, last, data))
    return cover(start, end, batches)
