"""A soak's books: what they accept, and that every kind of loss shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from towpath.soak.ledger import FAILED_MAX, PROBLEMS_MAX, Reader, Written
from towpath.soak.reconcile import Books, books_of, failed_of, reconcile
from towpath.soak.record import HEADER_BYTES, DamagedRecord, RecordMaker, parse

PRODUCERS = 2
RECORDS = 10
Log = list[bytes]
"""The records of partition 0 by offset."""


def make(producer: int, sequence: int) -> bytes:
    return RecordMaker(producer, 100, seed=1).make(0, sequence)


def good_log() -> Log:
    """Two producers in turn."""
    return [make(n % PRODUCERS, n // PRODUCERS) for n in range(RECORDS)]


def acknowledge(log: Log) -> Books:
    """Books of producers that were told every offset."""
    written = {(producer, 0): Written() for producer in range(PRODUCERS)}
    for offset, value in enumerate(log):
        producer, _, sequence, checksum = parse(value)
        written[producer, 0].next_sequence += 1
        written[producer, 0].note_acknowledged(producer, sequence, offset, checksum)
    return written


def read(log: Log, failed: dict[tuple[int, int], set[int]] | None = None) -> dict[str, Any]:
    reader = Reader(failed)
    for offset, value in enumerate(log):
        reader.read(0, offset, value)
    final: dict[str, Any] = json.loads(json.dumps(reader.to_dict()))
    return final


def problems(books: Books, log: Log, tail: Log | None = None) -> list[str]:
    verified = read(log, failed_of(books))
    return reconcile(books, {0: len(log)}, verified, {"tail": read(log if tail is None else tail)})


def test_records_round_trip_and_damage_shows() -> None:
    value = make(1, 7)
    assert len(value) == 100
    assert parse(value)[:3] == (1, 0, 7)
    assert make(1, 8)[HEADER_BYTES:] != value[HEADER_BYTES:]
    for damaged in (None, b"", value[:10], value[:-1], value[:50] + b"\0" + value[51:]):
        with pytest.raises(DamagedRecord):
            parse(damaged)


def test_what_was_acknowledged_and_read_adds_up() -> None:
    assert problems(acknowledge(good_log()), good_log()) == []


def test_books_survive_the_way_between_processes() -> None:
    books = acknowledge(good_log())
    final = {"producer": 0, "written": {"0": books[0, 0].to_dict()}}
    assert books_of([json.loads(json.dumps(final))]) == {(0, 0): books[0, 0]}


def test_a_lost_record_shows() -> None:
    log = good_log()
    found = problems(acknowledge(log), log[:4] + log[5:])
    assert "producer 0 partition 0: 5 acknowledged, 4 read" in found
    assert any("not at the offsets" in each for each in found), "all behind it moved"


def test_two_records_that_changed_places_show() -> None:
    log = good_log()
    swapped = [log[1], log[0], *log[2:]]
    assert any("not at the offsets" in each for each in problems(acknowledge(log), swapped))


def test_a_record_that_is_there_twice_shows() -> None:
    log = good_log()
    found = problems(acknowledge(log), [*log, log[-1]])
    assert any("came again" in each for each in found)
    assert "producer 1 partition 0: 5 acknowledged, 6 read" in found


def test_changed_bytes_show() -> None:
    log = good_log()
    log[3] = log[3][:-1] + bytes([log[3][-1] ^ 1])
    assert any("checksum" in each for each in problems(acknowledge(good_log()), log))


@pytest.mark.parametrize("is_there", [True, False])
def test_an_unacknowledged_record_may_be_there_or_not(is_there: bool) -> None:
    log = good_log()
    log = log if is_there else log[:-1]
    books = acknowledge(log[:9])
    books[1, 0].next_sequence = 5
    books[1, 0].note_failed(4)
    assert problems(books, log) == []


def test_an_unacknowledged_record_may_not_be_there_twice() -> None:
    log = good_log()
    books = acknowledge(log[:9])
    books[1, 0].next_sequence = 5
    books[1, 0].note_failed(4)
    assert any("came again" in each for each in problems(books, [*log, log[-1]]))


def test_a_record_that_was_neither_acknowledged_nor_given_up_shows() -> None:
    books = acknowledge(good_log())
    books[0, 0].next_sequence += 1
    assert problems(books, good_log()) == ["producer 0 partition 0: 6 sent, 5 settled"]


def test_a_pass_that_saw_something_else_shows() -> None:
    log = good_log()
    assert "tail: partition 0 was read up to 9 of 10" in problems(
        acknowledge(log), log, tail=log[:-1]
    )
    swapped = [log[1], log[0], *log[2:]]
    found = problems(acknowledge(log), log, tail=swapped)
    assert found
    assert all(each.startswith("tail: ") for each in found)


def test_a_gap_in_the_offsets_shows() -> None:
    reader = Reader()
    reader.read(0, 0, make(0, 0))
    reader.read(0, 2, make(0, 1))
    assert reader.problems == ["partition 0: offset 2 follows 0"]


def test_a_record_in_the_wrong_partition_shows() -> None:
    reader = Reader()
    reader.read(3, 0, make(0, 0))
    assert reader.problems == ["partition 3 offset 0: meant for 0"]


def test_books_are_bounded() -> None:
    reader = Reader()
    for offset in range(2 * PROBLEMS_MAX):
        reader.read(0, offset, b"")
    assert (len(reader.problems), reader.problem_count) == (PROBLEMS_MAX, 2 * PROBLEMS_MAX)
    written = Written(failed=[0] * FAILED_MAX)
    with pytest.raises(OverflowError):
        written.note_failed(1)
