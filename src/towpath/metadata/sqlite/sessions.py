"""Sessions: kept alive for this process, ended for processes that are gone.

Time is the monotonic clock, which stands still while a laptop sleeps and is the same for all
processes of one boot; another boot id means that the holder cannot be alive, and so does a lock
file that nobody holds (`liveness.py`).
"""

from __future__ import annotations

from functools import partial

from towpath.metadata.rules import check_session_ttl
from towpath.metadata.sqlite import operations
from towpath.metadata.sqlite.boot import boot_id
from towpath.metadata.sqlite.liveness import Liveness
from towpath.metadata.sqlite.reader import Reader
from towpath.metadata.sqlite.transaction import Transaction
from towpath.metadata.sqlite.writer import Writer
from towpath.metadata.store import Session
from towpath.runtime import Clock

KEEP_ALIVES_PER_TTL = 3


class SqliteSession(Session):
    """A row in `sessions` that this process renews."""

    def __init__(self, owner: Sessions, session_id: int, ttl_ms: int, renewed_ms: int) -> None:
        self.session_id = session_id
        self.ttl_ms = ttl_ms
        self.renewed_ms = renewed_ms
        self._owner = owner
        self._expired = False

    @property
    def expired(self) -> bool:
        return self._expired

    def mark_expired(self) -> None:
        """Its row is gone although nobody closed it."""
        self._expired = True

    async def close(self) -> None:
        await self._owner.end(self)


class Sessions:
    """The sessions of one store, and the sweeping of dead ones."""

    def __init__(self, writer: Writer, reader: Reader, clock: Clock, liveness: Liveness) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._liveness = liveness
        self._boot_id = boot_id()
        self._own: dict[int, SqliteSession] = {}

    async def open(self, ttl_ms: int) -> SqliteSession:
        """A new session of this process."""
        check_session_ttl(ttl_ms)
        now_ms = self._clock.monotonic_ms()
        session_id = await self._writer.submit(
            lambda tx: operations.open_session(
                tx, ttl_ms, self._clock.monotonic_ms(), self._boot_id, self._liveness.name
            )
        )
        session = SqliteSession(self, session_id, ttl_ms, now_ms)
        self._own[session_id] = session
        return session

    async def end(self, *sessions: SqliteSession) -> None:
        """Remove the sessions and their keys now."""
        ids = [session.session_id for session in sessions if session.session_id in self._own]
        if not ids:
            return
        for session_id in ids:
            # First of all no keep-alive may run for it, whatever becomes of the write.
            del self._own[session_id]
        await self._writer.submit(partial(operations.end_sessions, session_ids=ids))

    async def end_all(self) -> None:
        """Remove every session of this store."""
        await self.end(*self._own.values())

    async def keep_alive(self) -> None:
        """Renew the sessions of which a third of the time to live has passed."""
        now_ms = self._clock.monotonic_ms()
        due = [
            session
            for session in self._own.values()
            if (now_ms - session.renewed_ms) * KEEP_ALIVES_PER_TTL >= session.ttl_ms
        ]
        if not due:
            return
        gone = await self._writer.submit(partial(self._renew, due))
        for session in due:
            session.renewed_ms = now_ms
            if session.session_id in gone and session.session_id in self._own:
                session.mark_expired()
                del self._own[session.session_id]

    async def sweep(self) -> None:
        """End the sessions of dead processes; costs two reads while there are none."""
        for holder in self._reader.session_holders():
            if self._liveness.is_dead(holder):
                await self._writer.submit(partial(operations.end_sessions_of, holder=holder))
                self._liveness.forget(holder)
        if self._reader.has_dead_sessions(self._boot_id, self._clock.monotonic_ms()):
            await self._writer.submit(self._expire)

    def _renew(self, sessions: list[SqliteSession], tx: Transaction) -> set[int]:
        ids = [session.session_id for session in sessions]
        return operations.keep_alive(tx, ids, self._clock.monotonic_ms())

    def _expire(self, tx: Transaction) -> None:
        operations.expire_sessions(tx, self._boot_id, self._clock.monotonic_ms())
