"""Answers that come later, and the time-outs of those that do not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from towpath.kafka.deadlines import COMPACT_FROM_WAITS, Deadlines
from towpath.kafka.deferred import Deferred


def test_whoever_asks_is_told_once_whenever_he_asks() -> None:
    told: list[Any] = []
    early, late = Deferred(), Deferred()
    early.then(lambda response, error: told.append((response, error)))
    early.finish("answer")
    early.finish("other")
    assert told == [("answer", None)]
    failure = ValueError("no")
    late.finish(None, failure)
    late.then(lambda response, error: told.append((response, error)))
    assert told[1:] == [(None, failure)]
    assert early.is_finished
    assert late.is_finished


async def test_it_can_be_awaited() -> None:
    waiting, done = Deferred(), Deferred()
    task = asyncio.ensure_future(_result(waiting))
    await asyncio.sleep(0)
    waiting.finish(5)
    assert await task == 5
    done.finish(None, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await done


async def test_a_cancelled_wait_does_not_mind_the_answer() -> None:
    waiting = Deferred()
    task = asyncio.ensure_future(_result(waiting))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    waiting.finish(5)
    assert await waiting == 5  # The answer is not lost with the one who stopped waiting for it.


async def _result(deferred: Deferred) -> Any:
    return await deferred


class Wait:
    """Ends or expires."""

    def __init__(self) -> None:
        self.is_finished = False
        self.expired = asyncio.Event()

    def expire(self) -> None:
        self.is_finished = True
        self.expired.set()


async def test_waits_expire_in_time_and_only_if_they_are_not_finished() -> None:
    deadlines = Deadlines()
    slow, ended, quick = Wait(), Wait(), Wait()
    for wait, timeout_s in ((slow, 60.0), (ended, 0.01), (quick, 0.01)):
        deadlines.add(wait, timeout_s)
    ended.is_finished = True
    async with asyncio.timeout(10):
        await quick.expired.wait()
    assert not ended.expired.is_set()
    assert not slow.expired.is_set()


async def test_a_time_out_of_zero_expires_at_once() -> None:
    wait = Wait()
    Deadlines().add(wait, 0.0)
    async with asyncio.timeout(10):
        await wait.expired.wait()


async def test_later_waits_expire_after_the_first_ones_have() -> None:
    deadlines = Deadlines()
    first, second = Wait(), Wait()
    deadlines.add(first, 0.02)
    await asyncio.sleep(0.01)
    deadlines.add(second, 0.02)
    async with asyncio.timeout(10):
        await first.expired.wait()
        await second.expired.wait()


async def test_finished_waits_do_not_pile_up_behind_one_that_lasts() -> None:
    deadlines = Deadlines()
    lasting = Wait()
    deadlines.add(lasting, 60.0)
    for _ in range(10 * COMPACT_FROM_WAITS):
        wait = Wait()
        deadlines.add(wait, 60.0)
        wait.is_finished = True
    (queue,) = deadlines._queues.values()
    assert len(queue._waits) <= COMPACT_FROM_WAITS + 1
    assert queue._waits[0][1] is lasting


async def test_odd_time_outs_do_not_pile_up() -> None:
    deadlines = Deadlines()
    lasting = Wait()
    deadlines.add(lasting, 0.05)
    for number in range(3 * COMPACT_FROM_WAITS):
        wait = Wait()
        deadlines.add(wait, 1_000.0 + number)
        wait.is_finished = True
    assert len(deadlines._queues) <= COMPACT_FROM_WAITS + 1
    async with asyncio.timeout(10):
        await lasting.expired.wait()
