"""The metadata store in memory, for tests and the simulation.

It starts no thread and takes no time. Several stores over one `MemoryState` are the brokers of a
simulated cluster: each has its own watches and sessions. Faults are injected by wrapping a store,
or by `crash`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from towpath.metadata import rules
from towpath.metadata.memory_state import MemoryState
from towpath.metadata.store import (
    ANY,
    Append,
    Change,
    Committed,
    Condition,
    ConditionFailed,
    Expect,
    KeyValue,
    MetadataStore,
    Put,
    Session,
    SessionExpired,
    StoreUnavailable,
    Tail,
    Watch,
    WatchCallback,
)
from towpath.metadata.watchers import Watchers
from towpath.runtime import Runtime

MAX_PENDING_REVISIONS = 10_000
"""Revisions that wait for a store's watchers; when there are more, they get a resync."""
KEEP_ALIVES_PER_TTL = 3


class MemorySession(Session):
    """A lease that the store renews by a timer of the loop."""

    def __init__(self, state: MemoryState, session_id: int, ttl_ms: int) -> None:
        self.session_id = session_id
        self._state = state
        self._interval_s = ttl_ms / KEEP_ALIVES_PER_TTL / 1000
        self._closed = False
        self._timer = self._renew_later()

    @property
    def expired(self) -> bool:
        return not self._closed and not self._state.has_session(self.session_id)

    async def close(self) -> None:
        self._closed = not self.expired
        self.fall_silent()
        self._state.end_session(self.session_id)

    def renew(self) -> None:
        """Tell the store that the holder lives, and do so again after a third of the ttl."""
        self._timer.cancel()
        if self._state.renew(self.session_id):
            self._timer = self._renew_later()

    def fall_silent(self) -> None:
        """Renew no more."""
        self._timer.cancel()

    def _renew_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._interval_s, self.renew)


class MemoryStore(MetadataStore):
    """One client of a `MemoryState`; by default of one that nobody else uses.

    The watchers of the store that writes are called before its write returns; those of other
    stores at the loop's next turn, or by their next `barrier` or write.
    """

    def __init__(self, runtime: Runtime, state: MemoryState | None = None) -> None:
        self.state = state if state is not None else MemoryState(runtime.clock)
        self._watchers = Watchers()
        self._pending: deque[tuple[Change, ...]] = deque()
        self._resync = False
        self._drain_scheduled = False
        self._sessions: list[MemorySession] = []
        self._closed = False
        self.state.listen(self._changed)

    # Reads

    async def get(self, key: str) -> KeyValue | None:
        return self._open_state().get(key)

    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        rules.check_limit(limit)
        return self._open_state().scan(start, end, limit)

    async def first_above(self, key: str, end: str) -> KeyValue | None:
        return self._open_state().first_above(key, end)

    async def last(self, start: str, end: str) -> KeyValue | None:
        return self._open_state().last(start, end)

    async def tails(self, stream_ids: Sequence[int]) -> list[Tail]:
        state = self._open_state()
        return [state.tail_of(stream_id) for stream_id in stream_ids]

    # Writes

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        rules.check_key(key)
        rules.check_value(value)
        state = self._open_state()
        if session is not None and not state.has_session(session.session_id):
            raise SessionExpired(f"session {session.session_id} is over")
        rules.check_expectation(key, state.version_of(key), expect)
        session_id = None if session is None else session.session_id
        version = state.write([(key, value)], (), session_id)
        self._drain()
        return version

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        rules.check_key(key)
        state = self._open_state()
        version = state.version_of(key)
        rules.check_expectation(key, version, expect)
        state.write((), [key])
        self._drain()
        return version is not None

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        rules.check_commit(domain, self.domain_count, appends, puts, deletes)
        state = self._open_state()
        failed = rules.failed_conditions(expect, state.version_of, state.tail_of)
        if failed:
            raise ConditionFailed(failed)
        tails, keys = rules.assign_offsets(appends, puts, deletes, state.tail_of)
        entries = [(key, append.value) for key, append in zip(keys, appends, strict=True)]
        revision = state.write([*entries, *((put.key, put.value) for put in puts)], deletes)
        self._drain()
        return Committed(tails, revision)

    # Watches and sessions

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        return self._watchers.add(prefix, callback)

    async def barrier(self) -> None:
        self._open_state()
        self._drain()

    async def open_session(self, ttl_ms: int) -> Session:
        rules.check_session_ttl(ttl_ms)
        session = MemorySession(self.state, self._open_state().open_session(ttl_ms), ttl_ms)
        self._sessions = [*(old for old in self._sessions if not old.expired), session]
        return session

    async def probe(self) -> None:
        self._open_state()

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        self.crash()

    def tend_sessions(self) -> None:
        """Renew this store's sessions now, as its timers do."""
        for session in self._sessions:
            session.renew()

    def crash(self) -> None:
        """Stop like a killed process: the sessions fall silent and end when their time is over."""
        for session in self._sessions:
            session.fall_silent()
        self._closed = True
        self._watchers.cancel_all()
        self.state.forget(self._changed)

    def _open_state(self) -> MemoryState:
        if self._closed:
            raise StoreUnavailable("the metadata store is closed")
        return self.state

    def _changed(self, changes: tuple[Change, ...]) -> None:
        self._pending.append(changes)
        if len(self._pending) > MAX_PENDING_REVISIONS:
            self._pending.clear()
            self._resync = True
        if not self._drain_scheduled:
            self._drain_scheduled = True
            asyncio.get_running_loop().call_soon(self._drain_later)

    def _drain_later(self) -> None:
        self._drain_scheduled = False
        self._drain()

    def _drain(self) -> None:
        if not self._pending and not self._resync:
            return
        changes = [change for revision in self._pending for change in revision]
        resync = self._resync
        self._pending.clear()
        self._resync = False
        self._watchers.deliver(changes, resync=resync)
