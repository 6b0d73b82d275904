"""Work in threads: results, errors, cancelled callers, and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from towpath.threads import WorkThreads


@pytest.fixture
def threads() -> Iterator[WorkThreads]:
    threads = WorkThreads(2, "test")
    yield threads
    threads.close()


async def test_results_and_errors_come_back(threads: WorkThreads) -> None:
    assert await threads.run(divmod, 7, 2) == (3, 1)
    assert await threads.run_to_end(int, "ff", base=16) == 255
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 1, 0)
    names = {await threads.run(lambda: threading.current_thread().name) for _ in range(10)}
    assert names <= {"test-0", "test-1"}


async def test_as_many_run_at_once_as_there_are_threads(threads: WorkThreads) -> None:
    together = threading.Barrier(2, timeout=10)
    await asyncio.gather(threads.run(together.wait), threads.run(together.wait))


@pytest.mark.parametrize("to_end", [False, True])
async def test_who_is_cancelled_waits_only_if_asked_to(threads: WorkThreads, to_end: bool) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        ended.set()

    run = threads.run_to_end if to_end else threads.run
    caller = asyncio.create_task(run(work))
    assert await threads.run(begun.wait, 10)
    caller.cancel()
    _, waiting = await asyncio.wait([caller], timeout=0.05)
    assert bool(waiting) is to_end
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.wait(10)


async def test_close_finishes_what_was_asked_for() -> None:
    threads = WorkThreads(1, "test")
    gate = threading.Event()
    calls = [asyncio.create_task(threads.run(gate.wait, 10)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()
    threads.close()
    assert await asyncio.gather(*calls) == [True] * 3


def test_closing_what_was_never_used_does_nothing() -> None:
    WorkThreads(3, "test").close()
