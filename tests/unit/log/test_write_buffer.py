"""The write buffer's bounds: room for produced bytes, and the pace of flushes."""

from __future__ import annotations

import pytest

from towpath.errors import LogClosed
from towpath.log.object.buffer import Room
from towpath.log.object.pace import BURST_OBJECTS, Pace
from towpath.observe.metrics import Metrics


def room(max_bytes: int) -> Room:
    return Room(max_bytes, Metrics())


async def test_room_is_granted_until_it_is_full() -> None:
    space = room(100)
    assert space.admit(60) is None
    space.take(60)
    assert space.admit(40) is None
    space.take(40)
    assert space.admit(1) is not None


async def test_those_who_wait_are_let_in_by_their_order() -> None:
    space = room(100)
    space.take(100)
    first = space.admit(80)
    second = space.admit(10)
    assert first is not None
    assert second is not None
    space.give_back(50)
    # The second would fit, but the first came before it.
    assert not first.done()
    assert not second.done()
    space.give_back(50)
    await first
    await second


async def test_a_batch_larger_than_the_whole_room_enters_alone() -> None:
    space = room(100)
    assert space.admit(500) is None
    space.take(500)
    waiting = space.admit(1)
    assert waiting is not None
    space.give_back(500)
    await waiting


async def test_a_waiter_that_gave_up_blocks_nobody() -> None:
    space = room(100)
    space.take(100)
    gone = space.admit(100)
    waiting = space.admit(10)
    assert gone is not None
    assert waiting is not None
    gone.cancel()
    space.give_back(20)
    await waiting


async def test_a_closed_room_refuses_waiters_and_newcomers() -> None:
    space = room(100)
    space.take(100)
    waiting = space.admit(10)
    assert waiting is not None
    space.close()
    with pytest.raises(LogClosed):
        await waiting
    with pytest.raises(LogClosed):
        space.admit(1)


def test_flushes_are_free_up_to_a_burst_and_then_paced() -> None:
    pace = Pace(objects_per_second=100, now=0.0)
    for _ in range(BURST_OBJECTS):
        assert pace.delay(0.0) == 0.0
        pace.spend(0.0)
    assert pace.delay(0.0) == pytest.approx(0.01)
    assert pace.delay(0.004) == pytest.approx(0.006)
    assert pace.delay(0.01) == pytest.approx(0.0)


def test_a_quiet_time_does_not_save_up_more_than_a_burst() -> None:
    pace = Pace(objects_per_second=1_000, now=0.0)
    for _ in range(BURST_OBJECTS):
        pace.spend(1_000.0)
    assert pace.delay(1_000.0) > 0.0
