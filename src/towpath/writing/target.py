"""What a worker has to know to stage rows of a topic; it travels with the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.metadata.keys.topics import stream_id
from towpath.writing.block import SharedBlock

MAX_BATCH_BYTES = 1 << 20
"""A record batch has no more before compression, unless one record has."""


@dataclass(frozen=True, slots=True)
class Target:
    """A topic as it was when the write began, and where its objects go."""

    topic: str
    topic_number: int
    partitions: int
    max_message_bytes: int
    decompressed_max_bytes: int
    require_keys: bool
    """The topic is compacted: a record without a key could never be superseded."""
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    codec: int
    domain: int
    block: SharedBlock
    objects_url: str
    objects_options: Mapping[str, str] = field(hash=False, repr=False)

    @property
    def batch_max_bytes(self) -> int:
        """Where a batch of several records ends, before compression."""
        return min(MAX_BATCH_BYTES, self.max_message_bytes)

    def stream(self, partition: int) -> int:
        """The stream id of a partition."""
        return stream_id(self.topic_number, partition)
