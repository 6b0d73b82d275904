"""Reads ahead: the same bytes, order and errors as one read after the other, and within limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

import pytest

from towpath.lakehouse.jobs import read_ahead
from towpath.lakehouse.jobs.read_ahead import read_in_order
from towpath.lakehouse.jobs.wal_ranges import Range
from towpath.objects.store import Buffer, ObjectNotFound

PATIENCE_S = 30.0


class Objects:
    """Objects whose content is their name. Reads of held paths wait until they are let go."""

    def __init__(self, reads_at_once: int, missing: frozenset[str] = frozenset()) -> None:
        self.reads_at_once = reads_at_once
        self.missing = missing
        self.held: dict[str, threading.Event] = {}
        self.begun: list[str] = []
        self.threads: set[str] = set()
        self._changed = threading.Condition()

    def read(self, path: str, offset: int, length: int) -> Buffer:
        with self._changed:
            self.begun.append(path)
            self.threads.add(threading.current_thread().name)
            self._changed.notify_all()
        if path in self.held:
            assert self.held[path].wait(PATIENCE_S)
        if path in self.missing:
            raise ObjectNotFound(path)
        return f"{path}@{offset}+{length}".encode()

    def create(self, path: str) -> AbstractContextManager[BinaryIO]:
        raise NotImplementedError

    def hold(self, path: str) -> None:
        self.held[path] = threading.Event()

    def wait_begun(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, PATIENCE_S)


def parts(count: int, length: int = 10) -> Iterator[Range]:
    return (Range(f"o{number:02d}", number, length, ()) for number in range(count))


def contents(objects: Objects, ranges: Iterator[Range]) -> list[bytes]:
    return [bytes(content) for _, content in read_in_order(objects, ranges)]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_bytes_and_order_are_those_of_single_reads(count: int) -> None:
    alone, together = Objects(1), Objects(8)
    assert contents(together, parts(count)) == contents(alone, parts(count))
    assert sorted(together.begun) == alone.begun
    assert alone.threads <= {threading.current_thread().name}


def test_a_slow_read_does_not_change_the_order() -> None:
    objects = Objects(4)
    objects.hold("o00")

    def let_go() -> None:
        objects.wait_begun(4)
        objects.held["o00"].set()

    releasing = threading.Thread(target=let_go)
    releasing.start()
    reading = read_in_order(objects, parts(6))
    assert [part.path for part, _ in reading] == [f"o{number:02d}" for number in range(6)]
    releasing.join()


def test_reads_ahead_are_bounded_by_number() -> None:
    objects = Objects(4)
    objects.hold("o03")
    reading = read_in_order(objects, parts(100))
    for _ in range(3):
        next(reading)
    objects.wait_begun(6)
    assert len(objects.begun) == 6  # Three were taken; the held one and two more are ahead.
    objects.held["o03"].set()
    reading.close()


def test_reads_ahead_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES_MAX", 25)
    objects = Objects(8)
    reading = read_in_order(objects, parts(100))
    next(reading)
    objects.wait_begun(2)
    assert sorted(objects.begun) == ["o00", "o01"]
    reading.close()


def test_a_range_larger_than_the_bound_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES_MAX", 5)
    assert len(contents(Objects(8), parts(4))) == 4


@pytest.mark.parametrize("reads_at_once", [1, 4])
def test_an_error_comes_in_its_turn_and_the_first_one_only(reads_at_once: int) -> None:
    objects = Objects(reads_at_once, frozenset({"o02", "o03"}))
    reading = read_in_order(objects, parts(50))
    assert [next(reading)[0].path for _ in range(2)] == ["o00", "o01"]
    with pytest.raises(ObjectNotFound, match="o02"):
        next(reading)
    assert len(objects.begun) <= 3 + reads_at_once


def test_whoever_stops_early_leaves_no_thread() -> None:
    objects = Objects(4)
    reading = read_in_order(objects, parts(50))
    next(reading)
    reading.close()
    assert not [thread for thread in threading.enumerate() if "read-ahead" in thread.name]
    assert len(objects.begun) <= 4
