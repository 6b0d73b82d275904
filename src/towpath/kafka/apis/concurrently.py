"""Waiting for several things of one request at once, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from towpath.errors import StreamGone

T = TypeVar("T")
R = TypeVar("R")

CONCURRENT_CALLS_MAX = 16
"""The most calls to the log that one request has under way at once."""


async def for_each(items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do `work` for every item, at most CONCURRENT_CALLS_MAX at once. Ends with the caller."""
    if len(items) == 1:
        await work(items[0])
        return
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(len(items), CONCURRENT_CALLS_MAX)):
            group.create_task(worker())


async def for_streams(
    stream_ids: Sequence[int], call: Callable[[Sequence[int]], Awaitable[list[R]]]
) -> list[R | StreamGone]:
    """`call` for all streams together, and one by one if one of them is gone.

    The results are in the order of the streams; StreamGone stands for a stream that is gone.
    """
    try:
        return [*await call(stream_ids)]
    except StreamGone as gone:
        if len(stream_ids) == 1:
            return [gone]
    results: list[R | StreamGone] = [StreamGone("not asked yet")] * len(stream_ids)

    async def ask(at: int) -> None:
        try:
            results[at] = (await call([stream_ids[at]]))[0]
        except StreamGone as gone:
            results[at] = gone

    await for_each(range(len(stream_ids)), ask)
    return results


class Settling:
    """Waits for futures that somebody else resolves, without ever cancelling one.

    Every future added has its exception marked as retrieved, so that one which fails after
    everybody stopped waiting (a time-out, a closed connection) is not reported as lost.
    """

    __slots__ = ("_left", "_waiter")

    def __init__(self) -> None:
        self._left = 0
        self._waiter: asyncio.Future[None] | None = None

    def add(self, future: asyncio.Future[Any]) -> None:
        """Wait for this one too."""
        self._left += 1
        future.add_done_callback(self._one_done)

    async def wait_until(self, deadline: float) -> None:
        """Return when all are done or the event loop's time reaches `deadline`."""
        if self._left == 0:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_at(deadline, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()

    def _one_done(self, future: asyncio.Future[Any]) -> None:
        self._left -= 1
        if not future.cancelled():
            future.exception()
        if self._left == 0:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
