"""Coroutines whose first step runs at once behave as in a task."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from towpath.kafka import eager


def begin(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    result, task = eager.start(coroutine, asyncio.get_running_loop())
    assert result is None
    assert task is not None
    return task


async def test_a_coroutine_that_never_waits_needs_no_task() -> None:
    async def work() -> int:
        return 7

    outer = asyncio.current_task()
    assert eager.start(work(), asyncio.get_running_loop()) == (7, None)
    assert asyncio.current_task() is outer


async def test_errors_of_the_first_step_are_raised_at_once() -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        eager.start(work(), asyncio.get_running_loop())
    assert asyncio.current_task() is not None


async def test_results_and_errors_of_awaited_futures_arrive() -> None:
    loop = asyncio.get_running_loop()
    good, bad = loop.create_future(), loop.create_future()

    async def work() -> str:
        first = await good
        await asyncio.sleep(0)
        try:
            await bad
        except ValueError as error:
            return f"{first} {error}"
        return "no error"

    task = begin(work())
    good.set_result("good")
    bad.set_exception(ValueError("bad"))
    assert await task == "good bad"


async def test_an_error_of_the_first_future_arrives() -> None:
    future = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await future

    task = begin(work())
    future.set_exception(ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        await task


async def test_a_time_out_that_began_in_the_first_step_ends_it() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "not reached"

    assert await begin(work()) == "timed out"


async def test_a_task_group_that_began_in_the_first_step_reports_its_failures() -> None:
    async def fail() -> None:
        raise ValueError("child")

    async def work() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except* ValueError:
            pass
        return "done"

    assert await begin(work()) == "done"


@pytest.mark.parametrize("turns", [0, 3])
async def test_cancelling_reaches_the_coroutine_and_what_it_waits_for(turns: int) -> None:
    inner = asyncio.ensure_future(asyncio.Event().wait())
    seen: list[str] = []

    async def work() -> None:
        try:
            await inner
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = begin(work())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
    assert inner.cancelled()


async def test_cancelling_a_coroutine_that_only_gave_way_reaches_it() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    task = begin(work())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
