"""Where some batches of a stream lie in a WAL object: a plain value that travels to workers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WalChunk:
    """The batches of one index entry in one WAL object, in order."""

    path: str
    batches: tuple[tuple[int, int, int], ...]
    """`(base offset, position in the object, length)` of each batch."""
