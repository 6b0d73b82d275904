"""An answer that comes later, without a task that waits for it.

A handler that only waits for others to call it back (Produce: the log) returns one of these instead
of a coroutine: a task, its future and two turns of the event loop would cost as much again as all
the rest of a small request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

Then = Callable[[Any, BaseException | None], None]
"""Called with the response (None: send none) or with what went wrong."""


class Deferred:
    """Finished once, with a response or an error; tells whoever asked to be told."""

    __slots__ = ("_error", "_response", "_then", "is_finished")

    def __init__(self) -> None:
        self.is_finished = False
        self._response: Any = None
        self._error: BaseException | None = None
        self._then: Then | None = None

    def then(self, callback: Then) -> None:
        """Call back when it is finished; at once if it is."""
        if self.is_finished:
            callback(self._response, self._error)
        else:
            self._then = callback

    def finish(self, response: Any, error: BaseException | None = None) -> None:
        """The answer is here. Only the first call counts."""
        if self.is_finished:
            return
        self.is_finished = True
        # Kept also when somebody is told: whoever asked may have stopped listening meanwhile.
        self._response, self._error = response, error
        then, self._then = self._then, None
        if then is not None:
            then(response, error)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for it in a task, as for any other handler."""
        done = asyncio.get_running_loop().create_future()

        def settle(response: Any, error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(response)
            else:
                done.set_exception(error)

        self.then(settle)
        return (yield from done)
