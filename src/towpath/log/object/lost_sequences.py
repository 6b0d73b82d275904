"""Batches of idempotent producers that were refused and will be sent again.

A stream without state of a producer accepts any sequence, as in Kafka. So while a producer's first
batch is being sent again, a later one that was in flight behind it could be taken in its place and
the order lost. The first refused sequence is remembered until it comes or its time is over.
"""

from __future__ import annotations

from towpath.errors import OutOfOrderSequence
from towpath.log.interface import REFUSED_REMEMBERED_MS
from towpath.log.producers import MAX_SEQUENCE
from towpath.records.batch import BatchInfo
from towpath.runtime import Clock

MAX_REMEMBERED = 10_000


class LostSequences:
    """The earliest lost sequence by stream, producer and epoch; the oldest notes go first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lost: dict[tuple[int, int, int], tuple[int, int]] = {}
        """Sequence and the monotonic time of the note."""

    def note(self, stream_id: int, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """A batch was refused, and its producer will send it again."""
        key = (stream_id, producer_id, producer_epoch)
        known = self._current(key)
        if known is not None and not _is_before(sequence, known):
            sequence = known
        self._lost.pop(key, None)
        self._lost[key] = (sequence, self._clock.monotonic_ms())
        if len(self._lost) > MAX_REMEMBERED:
            del self._lost[next(iter(self._lost))]

    def check(self, stream_id: int, batch: BatchInfo, *, producer_is_known: bool) -> None:
        """Raise OutOfOrderSequence if an earlier batch must come first.

        The sequences of a producer that the stream knows have been compared already.
        """
        if not self._lost or producer_is_known:
            return
        lost = self._current((stream_id, batch.producer_id, batch.producer_epoch))
        if lost is not None and _is_before(lost, batch.base_sequence):
            raise OutOfOrderSequence(
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, "
                f"but {lost} was lost and must be sent again first"
            )

    def forget(self, stream_id: int, batch: BatchInfo) -> None:
        """The stream knows the batch's producer now, and compares sequences by itself."""
        if self._lost:
            self._lost.pop((stream_id, batch.producer_id, batch.producer_epoch), None)

    def _current(self, key: tuple[int, int, int]) -> int | None:
        found = self._lost.get(key)
        if found is None:
            return None
        sequence, noted_at_ms = found
        if self._clock.monotonic_ms() - noted_at_ms > REFUSED_REMEMBERED_MS:
            del self._lost[key]
            return None
        return sequence


def _is_before(sequence: int, other: int) -> bool:
    """Sequences wrap around: the shorter way decides."""
    return 0 < ((other - sequence) & MAX_SEQUENCE) <= MAX_SEQUENCE // 2
