"""Those who wait for a group to come into a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from towpath.groups.state import GroupState

R = TypeVar("R")

Look = Callable[[GroupState | None], Any]


class Waiters:
    """Each waiter looks at every new state until it sees what it waits for."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Look, asyncio.Future[Any]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, look: Callable[[GroupState | None], R | None]) -> R:
        """What `look` answers for a later state. A caller that gives up is forgotten."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._count += 1
        number = self._count
        self._waiting[number] = (look, future)
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def show(self, state: GroupState | None) -> None:
        """Let everybody look at a new state."""
        for number, (look, future) in tuple(self._waiting.items()):
            if future.done():
                continue
            try:
                answer = look(state)
            except Exception as error:  # noqa: BLE001 - it is the waiter's own.
                future.set_exception(error)
                answer = None
            else:
                if answer is not None:
                    future.set_result(answer)
            if future.done():
                del self._waiting[number]

    def fail(self, error: BaseException) -> None:
        """Nobody will be shown anything any more."""
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # Its task may be cancelled and never ask.
        self._waiting.clear()
