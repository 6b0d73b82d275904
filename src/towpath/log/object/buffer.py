"""What was produced and is not in a WAL object yet, and the room there is for more."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from towpath.errors import LogClosed
from towpath.log.interface import Receipt
from towpath.observe.metrics import Metrics
from towpath.records.batch import BatchInfo


@dataclass(slots=True)
class Pending:
    """One batch and who is told what becomes of it."""

    batch: BatchInfo
    receipt: Receipt


@dataclass(slots=True)
class Buffer:
    """The batches of one future WAL object, by stream, in the order of their arrival."""

    opened_at: float
    """Loop time of the first append."""
    size_bytes: int = 0
    chunks: dict[int, list[Pending]] = field(default_factory=dict)

    def add(self, stream_id: int, pending: Pending) -> None:
        """Append a batch to its stream's chunk."""
        chunk = self.chunks.get(stream_id)
        if chunk is None:
            self.chunks[stream_id] = [pending]
        else:
            chunk.append(pending)
        self.size_bytes += len(pending.batch.data)


class Room:
    """Bounds the produced bytes of all domains that are not committed yet.

    The bound is checked before an append, so it can be overshot by what was admitted in the same
    turn of the event loop, but never by more than one request of each connection.
    """

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        # Asked for when metrics are read, because an append may happen in every request.
        metrics.buffered_bytes.set_function(lambda: self._used_bytes)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes appended and not yet answered."""
        return self._used_bytes

    def admit(self, size_bytes: int) -> asyncio.Future[None] | None:
        """None if there is room now and nobody waits for it, else what to await."""
        if self._closed:
            raise LogClosed("the log is closed")
        if not self._waiting and self._fits(size_bytes, 0):
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, waiter))
        return waiter

    def take(self, size_bytes: int) -> None:
        """Count an append."""
        self._used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """An append was answered: let the first in the queue go on."""
        self._used_bytes -= size_bytes
        granted = 0
        while self._waiting:
            wanted, waiter = self._waiting[0]
            if waiter.done():
                self._waiting.popleft()
                continue
            if not self._fits(wanted, granted):
                return
            self._waiting.popleft()
            granted += wanted
            waiter.set_result(None)

    def close(self) -> None:
        """Refuse everybody who waits and everybody who comes."""
        self._closed = True
        while self._waiting:
            _, waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(LogClosed("the log is closed"))

    def _fits(self, size_bytes: int, granted: int) -> bool:
        # A batch larger than the whole buffer is let in alone; it could never enter otherwise.
        used = self._used_bytes + granted
        return used == 0 or used + size_bytes <= self._max_bytes
