"""Runs a coroutine's first step at once, and only what is left of it in a task.

Most handlers either finish in their first step or wait for one future; a task and a turn of the
event loop for each would cost more than the handler.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from typing import Any, cast


class _StandIn:
    """What `asyncio.current_task()` gives in the first step.

    `asyncio.timeout` and task groups keep the current task to cancel it later. By then the real
    task exists, and everything is passed on to it.
    """

    __slots__ = ("task",)

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None

    def cancel(self, msg: Any = None) -> bool:
        return self.task is not None and self.task.cancel(msg)

    def cancelling(self) -> int:
        return 0 if self.task is None else self.task.cancelling()

    def uncancel(self) -> int:
        return 0 if self.task is None else self.task.uncancel()

    def done(self) -> bool:
        return self.task is not None and self.task.done()


class _Rest(Coroutine[Any, Any, Any]):
    """The rest of a coroutine that waits for `pending`, in the form that a task drives."""

    __slots__ = ("_coroutine", "_pending", "_resumed")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], pending: Any) -> None:
        self._coroutine = coroutine
        self._pending = pending
        self._resumed = False

    def send(self, value: Any) -> Any:
        if self._resumed:
            return self._coroutine.send(value)
        self._resumed = True
        return self._pending

    def throw(self, *error: Any) -> Any:
        """Pass an error on; a cancellation before the first turn goes by way of `pending`."""
        early = not self._resumed
        self._resumed = True
        if early and self._pending is not None and self._pending.cancel():
            return self._pending
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise TypeError("only a task drives this")


def start(
    coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop
) -> tuple[Any, asyncio.Task[Any] | None]:
    """The result and no task if the coroutine finished at once, else nothing and its task.

    What the first step raises is raised here.
    """
    stand_in = _StandIn()
    current = cast("asyncio.Task[Any]", stand_in)
    outer = asyncio.current_task(loop)
    if outer is not None:
        _leave_task(loop, outer)
    _enter_task(loop, current)
    try:
        pending = coroutine.send(None)
    except StopIteration as finished:
        return finished.value, None
    finally:
        _leave_task(loop, current)
        if outer is not None:
            _enter_task(loop, outer)
    task = loop.create_task(_Rest(coroutine, pending))
    stand_in.task = task
    return None, task
