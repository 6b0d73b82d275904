"""Remembers which batches of idempotent producers were refused before they reached the log.

Their producers send them again. The log must know, or it could take a later batch that was in
flight behind the first one of a new producer; but when a topic was not found, there was no stream
to tell it about, so the note waits here for the partition's next batch.
"""

from __future__ import annotations

from uuid import UUID

from towpath.kafka.errors import ErrorCode
from towpath.log.interface import REFUSED_REMEMBERED_MS, Log
from towpath.objects.store import Buffer
from towpath.records.batch import HEADER_SIZE_BYTES, BatchInfo, parse_header
from towpath.runtime import Clock
from towpath.topics.interface import Topic

MAX_REMEMBERED = 10_000
SENT_AGAIN = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors after which clients send the same batch again."""

Place = tuple[str | UUID, int, int, int]
"""Topic, partition, producer id and epoch."""


class RefusedBatches:
    """The first refused sequence of each producer and partition, until the log knows of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes: dict[Place, tuple[int, int]] = {}
        """Sequence and the monotonic time of the note."""

    def note(
        self, topic: str | UUID, partition: int, records: Buffer | None, error: ErrorCode
    ) -> None:
        """A partition's records were refused with `error` and not appended."""
        if error not in SENT_AGAIN or records is None or len(records) < HEADER_SIZE_BYTES:
            return
        header = parse_header(records)
        if header.producer_id < 0:
            return
        place = (topic, partition, header.producer_id, header.producer_epoch)
        known = self._notes.pop(place, None)
        sequence = header.base_sequence if known is None else known[0]
        self._notes[place] = (sequence, self._clock.monotonic_ms())
        if len(self._notes) > MAX_REMEMBERED:
            del self._notes[next(iter(self._notes))]

    def tell(
        self, log: Log, stream_id: int, topic: Topic, partition: int, batch: BatchInfo
    ) -> None:
        """Pass on what is noted of this batch's producer and partition, before it is appended."""
        if not self._notes:
            return
        for key in (topic.name, topic.topic_id):
            place = (key, partition, batch.producer_id, batch.producer_epoch)
            noted = self._notes.pop(place, None)
            if noted is None:
                continue
            sequence, noted_at_ms = noted
            if self._clock.monotonic_ms() - noted_at_ms <= REFUSED_REMEMBERED_MS:
                log.note_refused(stream_id, batch.producer_id, batch.producer_epoch, sequence)
