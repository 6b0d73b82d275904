"""Keys of those who append without a broker: where they stage, and how far each has come.

Writers share one staging block per domain, named by a pointer: they come and go by the second (a
micro-batch each), and a marker lives as long as orphans are given. The progress of a writer is the
last epoch it has committed to a topic, changed in the commit of that epoch.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from towpath.metadata.keys import ROOT, json_value
from towpath.metadata.keys.numbers import pad

WRITERS_PREFIX = f"{ROOT}/writers/"
PROGRESS_PREFIX = f"{WRITERS_PREFIX}progress/"
NO_EPOCH = -1
"""The progress of a writer that has committed nothing yet."""


def current_block(domain: int) -> str:
    """The pointer to the staging block that writers take walIds of."""
    return f"{WRITERS_PREFIX}block/{domain:05d}"


def progress(topic_number: int, writer: str) -> str:
    """How far a writer has come with a topic. Names may be of any length and form."""
    digest = hashlib.sha256(writer.encode()).hexdigest()[:32]
    return f"{progress_prefix(topic_number)}{digest}"


def progress_prefix(topic_number: int) -> str:
    """The progress of all writers of a topic; it goes with the topic."""
    return f"{PROGRESS_PREFIX}{pad(topic_number)}/"


@dataclass(frozen=True, slots=True)
class CurrentBlock:
    """The block whose marker is to be used now."""

    block: uuid.UUID

    def encode(self) -> bytes:
        return json_value.encode(1, {"block": self.block.hex})

    @classmethod
    def decode(cls, value: bytes) -> CurrentBlock:
        return cls(uuid.UUID(hex=json_value.decode(value, 1, "current block")["block"]))


@dataclass(frozen=True, slots=True)
class Progress:
    """The last committed epoch of a writer. Every epoch up to it is in the topic, or was empty."""

    writer: str
    epoch: int
    committed_at_ms: int

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {"writer": self.writer, "epoch": self.epoch, "committedAt": self.committed_at_ms},
        )

    @classmethod
    def decode(cls, value: bytes) -> Progress:
        fields = json_value.decode(value, 1, "writer's progress")
        return cls(fields["writer"], fields["epoch"], fields["committedAt"])
