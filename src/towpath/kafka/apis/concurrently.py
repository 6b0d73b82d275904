"""Waiting for several things of one request at once, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

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
