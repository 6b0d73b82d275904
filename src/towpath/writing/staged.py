"""What workers tell the driver: the objects they have put, each with the entries it will get."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from towpath.writing.block import SharedBlock


@dataclass(frozen=True, slots=True)
class StagedChunk:
    """One stream's chunk of an object, and its index entry as it will be stored."""

    stream_id: int
    record_count: int
    size_bytes: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class StagedObject:
    """A durable WAL object that nothing refers to yet."""

    wal_id: uuid.UUID
    path: str
    created_at_ms: int
    size_bytes: int
    chunks: tuple[StagedChunk, ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """Everything that one task has put, in the order of its rows."""

    topic: str
    topic_number: int
    domain: int
    block: SharedBlock
    objects: tuple[StagedObject, ...]

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return sum(chunk.record_count for staged in self.objects for chunk in staged.chunks)
