"""The bounded queue between the event loop and the writer's thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from towpath.metadata.sqlite.transaction import Transaction
from towpath.metadata.store import StoreUnavailable

Work = Callable[[Transaction], Any]
"""What a write does inside the transaction; its result is the caller's answer."""


@dataclass(slots=True, eq=False)
class Write:
    """One write on its way: queued, then claimed by the writer, then answered on the loop."""

    work: Work
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        """Give the caller its result; on the loop's thread. A caller that left is no matter."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class WriteQueue:
    """First in, first out. A write is either claimed by the writer or withdrawn, never both."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._writes: deque[Write] = deque()
        self._lock = threading.Lock()
        self._signals: SimpleQueue[None] = SimpleQueue()
        self._signalled = False
        """Whether the writer has been told, or has seen for itself, that there is something."""
        self._closed = False

    def add(self, write: Write) -> None:
        """Queue a write, or raise StoreUnavailable when full or closed."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the metadata store is closed")
            if len(self._writes) >= self._limit:
                raise StoreUnavailable(f"{self._limit} metadata writes wait already")
            self._writes.append(write)
            self._signal()

    def withdraw(self, write: Write) -> bool:
        """Take a write back; False if the writer has claimed it."""
        with self._lock:
            if write not in self._writes:
                return False
            self._writes.remove(write)
            return True

    def wait(self) -> bool:
        """Block until something is queued; False once closed and empty."""
        while True:
            with self._lock:
                if self._writes or self._closed:
                    return bool(self._writes)
                self._signalled = False
            self._signals.get()

    def claim(self, limit: int) -> list[Write]:
        """The next writes, which now belong to the writer."""
        with self._lock:
            return [self._writes.popleft() for _ in range(min(limit, len(self._writes)))]

    def close(self) -> None:
        """Accept no more; what is queued is still written."""
        with self._lock:
            self._closed = True
            self._signal()

    def _signal(self) -> None:
        if not self._signalled:
            self._signalled = True
            self._signals.put(None)
