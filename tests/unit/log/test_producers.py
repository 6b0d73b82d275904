"""The idempotence table follows Kafka's rules for duplicates, gaps, epochs and wrap-around."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import OutOfOrderSequence, StaleProducerEpoch
from towpath.log.producers import BATCHES_KEPT, MAX_SEQUENCE, ProducerTable, SeenBatch
from towpath.records.batch import BatchInfo

PRODUCER = 7


def batch(sequence: int, count: int = 1, epoch: int = 0, producer: int = PRODUCER) -> BatchInfo:
    return BatchInfo(b"", count, 0, 0, producer, epoch, sequence)


def append(table: ProducerTable, new: BatchInfo, base_offset: int, at_ms: int = 0) -> None:
    table.check(new)
    seen = SeenBatch(new.base_sequence, new.last_sequence, base_offset)
    table.apply(new.producer_id, new.producer_epoch, seen, at_ms)


def test_a_repeated_batch_is_found_with_its_first_offset() -> None:
    table = ProducerTable()
    append(table, batch(0, 3), 100)
    append(table, batch(3, 2), 103)
    assert table.duplicate_of(batch(0, 3)) == 100
    assert table.duplicate_of(batch(3, 2)) == 103


def test_only_the_very_same_batch_is_a_duplicate() -> None:
    table = ProducerTable()
    append(table, batch(0, 3), 100)
    assert table.duplicate_of(batch(0, 2)) is None
    assert table.duplicate_of(batch(0, 3, epoch=1)) is None
    assert table.duplicate_of(batch(0, 3, producer=8)) is None


def test_batches_beyond_the_kept_ones_are_refused_as_out_of_order() -> None:
    table = ProducerTable()
    for sequence in range(BATCHES_KEPT + 1):
        append(table, batch(sequence), sequence)
    assert table.duplicate_of(batch(0)) is None
    assert table.duplicate_of(batch(1)) == 1
    with pytest.raises(OutOfOrderSequence):
        table.check(batch(0))


def test_a_gap_is_refused() -> None:
    table = ProducerTable()
    append(table, batch(0, 2), 0)
    with pytest.raises(OutOfOrderSequence, match="expected 2"):
        table.check(batch(3))


def test_a_producer_without_state_may_begin_anywhere() -> None:
    ProducerTable().check(batch(17))


def test_an_old_epoch_is_refused_and_a_new_one_begins_at_zero() -> None:
    table = ProducerTable()
    append(table, batch(0, epoch=3), 0)
    with pytest.raises(StaleProducerEpoch):
        table.check(batch(1, epoch=2))
    with pytest.raises(OutOfOrderSequence):
        table.check(batch(1, epoch=4))
    append(table, batch(0, epoch=4), 1)
    with pytest.raises(StaleProducerEpoch):
        table.check(batch(1, epoch=3))


def test_sequences_wrap_after_the_largest() -> None:
    table = ProducerTable()
    append(table, batch(MAX_SEQUENCE - 1, 3), 0)
    assert batch(MAX_SEQUENCE - 1, 3).last_sequence == 0
    append(table, batch(1), 3)
    assert table.duplicate_of(batch(MAX_SEQUENCE - 1, 3)) == 0


def test_idle_producers_are_forgotten() -> None:
    table = ProducerTable()
    append(table, batch(0, producer=1), 0, at_ms=1_000)
    append(table, batch(0, producer=2), 1, at_ms=2_000)
    table.forget_idle(before_ms=1_500)
    assert not table.knows(1)
    assert table.knows(2)


def test_trying_batches_on_a_copy_leaves_the_table_alone() -> None:
    table = ProducerTable(offset_end=5)
    append(table, batch(0), 4)
    scratch = table.copy_of({PRODUCER, 99})
    append(scratch, batch(1), 5)
    table.check(batch(1))
    assert scratch.offset_end == 5


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 4)), max_size=30))
def test_a_snapshot_holds_the_whole_state(steps: list[tuple[int, int, int]]) -> None:
    table = ProducerTable()
    offset = 0
    for producer, epoch, count in steps:
        new = batch(0, count, epoch, producer)
        table.apply(producer, epoch, SeenBatch(0, new.last_sequence, offset), offset)
        offset += count
    table.offset_end = offset
    copy = ProducerTable.decode(table.encode())
    assert copy.encode() == table.encode()
    assert copy.offset_end == offset
    for producer, epoch, count in steps:
        probe = batch(0, count, epoch, producer)
        assert copy.duplicate_of(probe) == table.duplicate_of(probe)
