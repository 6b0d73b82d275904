"""Which batch of a new producer must come first, after one of its batches was refused."""

from __future__ import annotations

import pytest

from towpath.errors import OutOfOrderSequence
from towpath.log.interface import REFUSED_REMEMBERED_MS
from towpath.log.object.lost_sequences import MAX_REMEMBERED, LostSequences
from towpath.log.producers import MAX_SEQUENCE
from towpath.records.batch import BatchInfo

STREAM, PRODUCER, EPOCH = 7, 1000, 0


class StoppedClock:
    """Time goes on when a test says so."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


def batch(sequence: int, producer_id: int = PRODUCER, epoch: int = EPOCH) -> BatchInfo:
    return BatchInfo(b"", 1, 0, 0, producer_id, epoch, sequence)


def is_refused(lost: LostSequences, sequence: int, *, known: bool = False) -> bool:
    try:
        lost.check(STREAM, batch(sequence), producer_is_known=known)
    except OutOfOrderSequence:
        return True
    return False


def test_what_comes_after_a_lost_batch_waits_for_it() -> None:
    lost = LostSequences(StoppedClock())
    assert not is_refused(lost, 5)
    lost.note(STREAM, PRODUCER, EPOCH, 5)
    assert is_refused(lost, 6)
    assert is_refused(lost, 500)
    assert not is_refused(lost, 5)
    assert not is_refused(lost, 4)
    # Checking decides nothing: the commit may be repeated.
    assert is_refused(lost, 6)
    lost.forget(STREAM, batch(5))
    assert not is_refused(lost, 6)


def test_the_earliest_of_several_counts() -> None:
    lost = LostSequences(StoppedClock())
    for sequence in (7, 3, 5):
        lost.note(STREAM, PRODUCER, EPOCH, sequence)
    assert is_refused(lost, 5)
    assert not is_refused(lost, 3)


def test_sequences_wrap_around() -> None:
    lost = LostSequences(StoppedClock())
    lost.note(STREAM, PRODUCER, EPOCH, MAX_SEQUENCE)
    assert is_refused(lost, 0)
    assert is_refused(lost, 10)
    assert not is_refused(lost, MAX_SEQUENCE)
    assert not is_refused(lost, MAX_SEQUENCE - 1)


def test_a_producer_that_the_stream_knows_is_not_held_up() -> None:
    lost = LostSequences(StoppedClock())
    lost.note(STREAM, PRODUCER, EPOCH, 5)
    assert not is_refused(lost, 6, known=True)


@pytest.mark.parametrize(
    ("stream_id", "producer_id", "epoch"),
    [(STREAM + 1, PRODUCER, EPOCH), (STREAM, PRODUCER + 1, EPOCH), (STREAM, PRODUCER, EPOCH + 1)],
)
def test_others_are_not_concerned(stream_id: int, producer_id: int, epoch: int) -> None:
    lost = LostSequences(StoppedClock())
    lost.note(STREAM, PRODUCER, EPOCH, 5)
    lost.check(stream_id, batch(6, producer_id, epoch), producer_is_known=False)


def test_a_batch_that_was_given_up_holds_nobody_up_for_good() -> None:
    clock = StoppedClock()
    lost = LostSequences(clock)
    lost.note(STREAM, PRODUCER, EPOCH, 5)
    clock.at_ms = REFUSED_REMEMBERED_MS
    assert is_refused(lost, 6)
    clock.at_ms += 1
    assert not is_refused(lost, 6)


def test_the_memory_is_bounded() -> None:
    lost = LostSequences(StoppedClock())
    for producer_id in range(MAX_REMEMBERED + 10):
        lost.note(STREAM, producer_id, EPOCH, 5)
    assert len(lost._lost) == MAX_REMEMBERED
    lost.check(STREAM, batch(6, 9), producer_is_known=False)
    with pytest.raises(OutOfOrderSequence):
        lost.check(STREAM, batch(6, 10), producer_is_known=False)
