"""Which bytes of WAL objects are read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from towpath.lakehouse.wal_chunk import WalChunk

READ_BYTES_MAX: Final = 8 << 20
READ_GAP_BYTES_MAX: Final = 4096
"""Reading so many bytes for nothing costs less than another read."""


class Range(NamedTuple):
    """Bytes of one object that are read at once, with the batches they hold."""

    path: str
    position: int
    length: int
    batches: Sequence[tuple[int, int, int]]


def ranges(chunks: Sequence[WalChunk]) -> Iterator[Range]:
    """Reads of `READ_BYTES_MAX` at most (or one batch) that cover all batches in order.

    Neighbours are read together; what lies between two batches is a few bytes of their lengths.
    """
    for chunk in chunks:
        batches: list[tuple[int, int, int]] = []
        start = end = 0
        for batch in chunk.batches:
            _, position, length = batch
            near = 0 <= position - end <= READ_GAP_BYTES_MAX
            if batches and not (near and position + length - start <= READ_BYTES_MAX):
                yield Range(chunk.path, start, end - start, batches)
                batches = []
            if not batches:
                start = position
            batches.append(batch)
            end = position + length
        if batches:
            yield Range(chunk.path, start, end - start, batches)
