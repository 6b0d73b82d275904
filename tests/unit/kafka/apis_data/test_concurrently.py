"""Bounded concurrency and per-stream fallbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from towpath.errors import LogUnavailable, StreamGone
from towpath.kafka.apis.concurrently import (
    CONCURRENT_CALLS_MAX,
    for_each,
    for_streams,
)


@pytest.mark.parametrize("count", [0, 1, 5, 100])
async def test_for_each_does_every_item_once_within_the_bound(count: int) -> None:
    done: list[int] = []
    under_way = most = 0

    async def work(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(item)

    await for_each(range(count), work)
    assert sorted(done) == list(range(count))
    assert most == min(count, CONCURRENT_CALLS_MAX)


async def test_for_each_ends_with_its_caller() -> None:
    started = asyncio.Event()
    ended: list[int] = []

    async def work(item: int) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    task = asyncio.create_task(for_each(range(3), work))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 1, 2]


async def test_for_streams_singles_out_those_that_are_gone() -> None:
    calls: list[list[int]] = []

    async def call(stream_ids: Sequence[int]) -> list[str]:
        calls.append(list(stream_ids))
        if 2 in stream_ids:
            raise StreamGone("2")
        return [f"s{stream_id}" for stream_id in stream_ids]

    assert await for_streams([1, 3], call) == ["s1", "s3"]
    assert len(calls) == 1
    first, gone, last = await for_streams([1, 2, 3], call)
    assert (first, last) == ("s1", "s3")
    assert isinstance(gone, StreamGone)
    calls.clear()
    [alone] = await for_streams([2], call)
    assert isinstance(alone, StreamGone)
    assert len(calls) == 1


async def test_for_streams_passes_on_other_failures() -> None:
    async def call(stream_ids: Sequence[int]) -> list[str]:
        raise LogUnavailable("x")

    with pytest.raises(LogUnavailable):
        await for_streams([1, 2], call)
