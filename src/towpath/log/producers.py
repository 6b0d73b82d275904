"""Idempotent producers: which batches a stream has seen, by Kafka's rules.

A `ProducerTable` is the state of one stream up to one offset. It keeps the last five batches of
each producer, so that a repeated batch is recognised and answered with the offset it got the first
time. It is pure: callers feed it what the index says and what is about to be committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from towpath.errors import OutOfOrderSequence, StaleProducerEpoch
from towpath.metadata.proto.index_pb2 import ProducerSnapshot
from towpath.records.batch import BatchInfo

BATCHES_KEPT = 5
"""As many batches as a Kafka client may have in flight with idempotence."""
MAX_SEQUENCE = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """One batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """What the stream knows of one producer: its newest epoch and last batches, oldest first."""

    epoch: int
    written_at_ms: int
    batches: list[SeenBatch] = field(default_factory=list)


class ProducerTable:
    """The producers of one stream, up to `offset_end` (exclusive)."""

    def __init__(self, offset_end: int = 0) -> None:
        self.offset_end = offset_end
        self.swept_at_ms = 0
        self._producers: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def duplicate_of(self, batch: BatchInfo) -> int | None:
        """The base offset of this very batch if it is in the log already."""
        entry = self._producers.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        for seen in entry.batches:
            if (
                seen.first_sequence == batch.base_sequence
                and seen.last_sequence == batch.last_sequence
            ):
                return seen.base_offset
        return None

    def check(self, batch: BatchInfo) -> None:
        """Raise ProducerError unless the batch may follow what the producer wrote last.

        A producer without state may begin at any sequence, as in Kafka: its records may have been
        removed by retention.
        """
        entry = self._producers.get(batch.producer_id)
        if entry is None:
            return
        if batch.producer_epoch < entry.epoch:
            raise StaleProducerEpoch(
                f"producer {batch.producer_id} wrote with epoch {batch.producer_epoch}, "
                f"the stream has seen {entry.epoch}"
            )
        if batch.producer_epoch > entry.epoch:
            if batch.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {batch.producer_id} began epoch {batch.producer_epoch} "
                    f"at sequence {batch.base_sequence}, not 0"
                )
            return
        expected = (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE
        if batch.base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, "
                f"expected {expected}"
            )

    def apply(self, producer_id: int, epoch: int, seen: SeenBatch, written_at_ms: int) -> None:
        """Note a batch that is in the log (or about to be committed)."""
        entry = self._producers.get(producer_id)
        if entry is None or entry.epoch != epoch:
            self._producers[producer_id] = ProducerEntry(epoch, written_at_ms, [seen])
            return
        entry.batches.append(seen)
        del entry.batches[:-BATCHES_KEPT]
        entry.written_at_ms = written_at_ms

    def knows(self, producer_id: int) -> bool:
        """Whether the stream has state of this producer."""
        return producer_id in self._producers

    def forget_idle(self, before_ms: int) -> None:
        """Drop the producers that wrote nothing since `before_ms`."""
        self._producers = {
            producer_id: entry
            for producer_id, entry in self._producers.items()
            if entry.written_at_ms >= before_ms
        }

    def become(self, other: ProducerTable) -> None:
        """Take over another table's state of the same stream; the other is used up."""
        self.offset_end = other.offset_end
        self._producers = other._producers

    def copy_of(self, producer_ids: set[int]) -> ProducerTable:
        """A scratch table with these producers only, to try batches against."""
        scratch = ProducerTable(self.offset_end)
        for producer_id in producer_ids:
            entry = self._producers.get(producer_id)
            if entry is not None:
                scratch._producers[producer_id] = ProducerEntry(
                    entry.epoch, entry.written_at_ms, list(entry.batches)
                )
        return scratch

    def encode(self) -> bytes:
        """The table as a `ProducerSnapshot`."""
        snapshot = ProducerSnapshot(version=1, offset_end=self.offset_end)
        for producer_id, entry in self._producers.items():
            state = snapshot.producers.add(
                id=producer_id, epoch=entry.epoch, last_written_at_ms=entry.written_at_ms
            )
            for seen in entry.batches:
                state.batches.add(
                    first_sequence=seen.first_sequence,
                    last_sequence=seen.last_sequence,
                    base_offset=seen.base_offset,
                )
        return snapshot.SerializeToString()

    @classmethod
    def decode(cls, value: bytes) -> ProducerTable:
        """The inverse of `encode`."""
        snapshot = ProducerSnapshot.FromString(value)
        if snapshot.version != 1:
            raise ValueError(f"producer snapshot has version {snapshot.version}")
        table = cls(snapshot.offset_end)
        for state in snapshot.producers:
            table._producers[state.id] = ProducerEntry(
                state.epoch,
                state.last_written_at_ms,
                [
                    SeenBatch(seen.first_sequence, seen.last_sequence, seen.base_offset)
                    for seen in state.batches
                ],
            )
        return table
