"""Threads that work for an event loop, with as little between them as possible.

`concurrent.futures` passes each piece of work through two futures with locks of their own, and
that costs more than a small read or write of a file: 100 µs and more on a loop that was idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Job:
    """A piece of work, the future of whoever waits for it, and whether it has ended."""

    __slots__ = ("done", "ended", "left", "loop", "work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.done: asyncio.Future[Any] = loop.create_future()
        self.ended = False
        self.left: asyncio.Future[None] | None = None
        """Of a caller that was cancelled and waits for the end of the work."""

    def settle(self, result: Any, error: BaseException | None) -> None:
        """On the loop's thread: answer."""
        self.ended = True
        if self.left is not None and not self.left.done():
            self.left.set_result(None)
        if self.done.done():
            return
        if error is None:
            self.done.set_result(result)
        else:
            self.done.set_exception(error)


class WorkThreads:
    """A fixed number of threads, started with the first work."""

    def __init__(self, count: int, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        self._started = False

    async def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of `work`. If the caller is cancelled, the work goes on without it."""
        result: R = await self._start(lambda: work(*args, **kwargs)).done
        return result

    async def run_to_end(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """As `run`, but a cancelled caller waits for the end: the work uses its buffers."""
        job = self._start(lambda: work(*args, **kwargs))
        try:
            result: R = await job.done
            return result
        except asyncio.CancelledError:
            if not job.ended:
                job.left = job.loop.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await job.left
            raise

    def close(self, *, wait: bool = True) -> None:
        """Finish what was asked for, then end the threads; blocks if it is to `wait` for that."""
        if not self._started:
            return
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _start(self, work: Callable[[], Any]) -> _Job:
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        job = _Job(work, asyncio.get_running_loop())
        self._jobs.put(job)
        return job

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            try:
                result = job.work()
            except BaseException as failure:  # noqa: BLE001 - it is raised where it is awaited.
                error = failure
            # A closed loop has nobody who waits.
            with contextlib.suppress(RuntimeError):
                job.loop.call_soon_threadsafe(job.settle, result, error)
            # Nothing of a job may stay referenced while the thread waits for the next one.
            del job, result, error
