"""The data behind memory stores: what a database would hold, for clients of one event loop."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towpath.metadata.keys import streams
from towpath.metadata.rules import tail_of_key
from towpath.metadata.store import Change, KeyValue, Tail
from towpath.runtime import Clock

Listener = Callable[[tuple[Change, ...]], None]
"""Gets the changes of each revision; called while the revision is being written."""


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    seen_ms: int
    timer: asyncio.TimerHandle


class MemoryState:
    """Keys, revisions and sessions. Every method is atomic, because none of them awaits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Python orders strings by code point, which is the order of their UTF-8 bytes.
        self._order: list[str] = []
        self._entries: dict[str, KeyValue] = {}
        self._owners: dict[str, int] = {}
        self._leases: dict[int, _Lease] = {}
        self._session_count = 0
        self._listeners: list[Listener] = []
        self.revision = 0
        """The last revision; also the version of the keys that it put."""

    # Reads

    def get(self, key: str) -> KeyValue | None:
        """One key."""
        return self._entries.get(key)

    def version_of(self, key: str) -> int | None:
        """The key's version, None if it does not exist."""
        found = self._entries.get(key)
        return None if found is None else found.version

    def scan(self, start: str, end: str, limit: int) -> list[KeyValue]:
        """The first keys of `[start, end)`."""
        first = bisect_left(self._order, start)
        stop = min(bisect_left(self._order, end), first + limit)
        return [self._entries[key] for key in self._order[first:stop]]

    def first_above(self, key: str, end: str) -> KeyValue | None:
        """The smallest key of `(key, end)`."""
        position = bisect_right(self._order, key)
        if position == len(self._order) or self._order[position] >= end:
            return None
        return self._entries[self._order[position]]

    def last(self, start: str, end: str) -> KeyValue | None:
        """The greatest key of `[start, end)`."""
        position = bisect_left(self._order, end) - 1
        if position < 0 or self._order[position] < start:
            return None
        return self._entries[self._order[position]]

    def tail_of(self, stream_id: int) -> Tail:
        """The stream's tail by its greatest index key."""
        found = self.last(streams.index_prefix(stream_id), streams.index_end(stream_id))
        return tail_of_key(None if found is None else found.key)

    # Writes

    def write(
        self,
        puts: Sequence[tuple[str, bytes]],
        deletes: Sequence[str],
        session_id: int | None = None,
    ) -> int:
        """Put and delete as one revision and return its number; keys to delete may be absent."""
        existing = [key for key in deletes if key in self._entries]
        if not puts and not existing:
            return self.revision
        self.revision += 1
        for key, value in puts:
            self._put(key, value, session_id)
        for key in existing:
            self._delete(key)
        changes = (
            *(Change(key, self.revision) for key, _ in puts),
            *(Change(key, None) for key in existing),
        )
        for listener in tuple(self._listeners):
            listener(changes)
        return self.revision

    def _put(self, key: str, value: bytes, session_id: int | None) -> None:
        if key not in self._entries:
            self._order.insert(bisect_left(self._order, key), key)
        self._entries[key] = KeyValue(key, value, self.revision)
        self._owners.pop(key, None)
        if session_id is not None:
            self._owners[key] = session_id

    def _delete(self, key: str) -> None:
        del self._entries[key]
        del self._order[bisect_left(self._order, key)]
        self._owners.pop(key, None)

    # Listeners

    def listen(self, listener: Listener) -> None:
        """Call the listener for every revision from now on."""
        self._listeners.append(listener)

    def forget(self, listener: Listener) -> None:
        """Do not call it again."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # Sessions

    def open_session(self, ttl_ms: int) -> int:
        """A new session's id; it ends by itself when not renewed for `ttl_ms`."""
        self._session_count += 1
        session_id = self._session_count
        timer = self._expire_later(session_id, ttl_ms)
        self._leases[session_id] = _Lease(ttl_ms, self._clock.monotonic_ms(), timer)
        return session_id

    def has_session(self, session_id: int) -> bool:
        """Whether the session has not ended."""
        return session_id in self._leases

    def renew(self, session_id: int) -> bool:
        """Mark the session as seen; False if it has ended."""
        lease = self._leases.get(session_id)
        if lease is not None:
            lease.seen_ms = self._clock.monotonic_ms()
        return lease is not None

    def end_session(self, session_id: int) -> None:
        """Remove the session and, as one revision, its ephemeral keys."""
        lease = self._leases.pop(session_id, None)
        if lease is not None:
            lease.timer.cancel()
            self.write(
                (), sorted(key for key, owner in self._owners.items() if owner == session_id)
            )

    def expire_silent(self) -> None:
        """End every session whose holder has been silent for too long."""
        for session_id, lease in tuple(self._leases.items()):
            if self._silent_ms(lease) > lease.ttl_ms:
                self.end_session(session_id)

    def _silent_ms(self, lease: _Lease) -> int:
        return self._clock.monotonic_ms() - lease.seen_ms

    def _expire_later(self, session_id: int, delay_ms: int) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later((delay_ms + 1) / 1000, self._expiry_due, session_id)

    def _expiry_due(self, session_id: int) -> None:
        self.expire_silent()
        lease = self._leases.get(session_id)
        if lease is not None:
            left_ms = max(0, lease.ttl_ms - self._silent_ms(lease))
            lease.timer = self._expire_later(session_id, left_ms)
