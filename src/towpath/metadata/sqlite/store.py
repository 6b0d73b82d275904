"""The metadata store on SQLite: see `writer.py` for writes, `feed.py` for watches."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from towpath.metadata import rules
from towpath.metadata.sqlite import operations
from towpath.metadata.sqlite.feed import Feed
from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.liveness import Liveness
from towpath.metadata.sqlite.long_scan import SLICE_KEYS, LongScan
from towpath.metadata.sqlite.reader import Reader
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.sqlite.sessions import Sessions
from towpath.metadata.sqlite.tail_cache import TailCache
from towpath.metadata.sqlite.wakeup import Wakeup, runtime_directory
from towpath.metadata.sqlite.writer import Writer
from towpath.metadata.store import (
    ANY,
    Append,
    Committed,
    Condition,
    Expect,
    KeyValue,
    MetadataError,
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

logger = logging.getLogger(__name__)


class SqliteStore(MetadataStore):
    """One process's access to the database; belongs to the event loop that opened it.

    Several stores, in one process or in many on the same host, share a database. It must lie on a
    local file system.
    """

    def __init__(self, path: Path, runtime: Runtime, limits: SqliteLimits) -> None:
        """Use `open`."""
        self._runtime = runtime
        self._limits = limits
        self._path = path = path.resolve()
        self._name = name = f"{os.getpid()}-{runtime.random.getrandbits(32):08x}"
        self._wakeup = Wakeup(runtime_directory(path), name)
        self._watchers = Watchers()
        self._tails = TailCache(limits.cached_streams)
        self._writer = Writer(path, limits, self._committed, self._wakeup.notify)
        self._background: list[asyncio.Task[None]] = []
        self._closed = False
        # Set by `_start`, once the writer has prepared the database.
        self._reader: Reader
        self._long_scan: LongScan
        self._feed: Feed
        self._liveness: Liveness
        self._sessions: Sessions

    @classmethod
    async def open(
        cls, path: Path, runtime: Runtime, limits: SqliteLimits | None = None
    ) -> SqliteStore:
        """Open the database, creating it and its directory if need be.

        Raises UnsupportedDatabase for the file of a newer release or another program, and
        StoreUnavailable when it cannot be opened or is locked for too long.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"cannot create {path.parent}: {error}") from error
        store = cls(path, runtime, limits if limits is not None else SqliteLimits())
        await store._start()
        return store

    async def _start(self) -> None:
        await self._writer.start()
        try:
            self._reader = Reader(self._path)
            self._long_scan = LongScan(self._path)
            self._feed = Feed(self._reader, self._watchers, self._tails)
            self._liveness = Liveness(self._path, self._name)
        except (sqlite3.Error, MetadataError, OSError) as error:
            await self._writer.close()
            raise StoreUnavailable(f"the metadata database cannot be read: {error}") from error
        self._sessions = Sessions(self._writer, self._reader, self._runtime.clock, self._liveness)
        self._wakeup.listen(self._woken)
        self._background = [
            asyncio.create_task(self._repeat(self.poll), name="metadata-poll"),
            asyncio.create_task(self._repeat(self.tend_sessions), name="metadata-sessions"),
        ]

    # Reads

    async def get(self, key: str) -> KeyValue | None:
        return self._open_reader().get(key)

    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        rules.check_limit(limit)
        reader = self._open_reader()
        if limit <= SLICE_KEYS:
            return reader.scan(start, end, limit)
        return await self._long_scan.scan(start, end, limit)

    async def first_above(self, key: str, end: str) -> KeyValue | None:
        return self._open_reader().first_above(key, end)

    async def last(self, start: str, end: str) -> KeyValue | None:
        return self._open_reader().last(start, end)

    async def tails(self, stream_ids: Sequence[int]) -> list[Tail]:
        reader = self._open_reader()
        self._feed.pull()
        found = {stream_id: self._tails.get(stream_id) for stream_id in stream_ids}
        missing = [stream_id for stream_id, tail in found.items() if tail is None]
        if missing:
            read, revision = reader.tails(missing)
            for stream_id, tail in zip(missing, read, strict=True):
                self._tails.put(stream_id, tail, revision)
                found[stream_id] = tail
        return [tail for tail in map(found.__getitem__, stream_ids) if tail is not None]

    # Writes

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        rules.check_key(key)
        rules.check_value(value)
        if session is not None and session.expired:
            raise SessionExpired(f"session {session.session_id} is over")
        session_id = None if session is None else session.session_id
        return await self._writer.submit(
            lambda tx: operations.put(tx, key, value, expect, session_id)
        )

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        rules.check_key(key)
        return await self._writer.submit(lambda tx: operations.delete(tx, key, expect))

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        # The caller's sequences are copied: it may change them while the write waits.
        work = partial(
            operations.commit,
            appends=tuple(appends),
            puts=tuple(puts),
            deletes=tuple(deletes),
            expect=tuple(expect),
        )
        rules.check_commit(domain, self.domain_count, appends, puts, deletes)
        return await self._writer.submit(work)

    # Watches and sessions

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        return self._watchers.add(prefix, callback)

    async def barrier(self) -> None:
        self._open_reader()
        self._feed.pull()

    async def open_session(self, ttl_ms: int) -> Session:
        return await self._sessions.open(ttl_ms)

    async def probe(self) -> None:
        self._open_reader().head()
        clock = self._runtime.clock
        await self._writer.submit(lambda tx: operations.probe(tx, clock.now_ms()))

    # Background work, which tests may also call

    async def poll(self) -> None:
        """Deliver what other processes committed; done at every wake-up and every interval."""
        self._feed.pull()

    async def tend_sessions(self) -> None:
        """Renew this store's sessions, then end those of dead processes; done every interval."""
        await self._sessions.keep_alive()
        await self._sessions.sweep()

    async def close(self) -> None:
        if self._closed:
            return
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        try:
            await self._sessions.end_all()
        except MetadataError as error:
            logger.warning("sessions are left to expire: %s", error)
        self._closed = True
        self._watchers.cancel_all()
        await self._writer.close()
        self._wakeup.close()
        self._liveness.close()
        self._reader.close()
        self._long_scan.close()

    def _open_reader(self) -> Reader:
        if self._closed:
            raise StoreUnavailable("the metadata store is closed")
        return self._reader

    def _committed(self, revisions: Sequence[Revision]) -> None:
        try:
            self._feed.committed_here(revisions)
        except StoreUnavailable:
            # The write itself is durable and must be acknowledged; the next pull delivers it.
            logger.exception("the metadata change feed cannot be read")

    def _woken(self) -> None:
        try:
            self._feed.pull()
        except StoreUnavailable:
            logger.exception("the metadata change feed cannot be read")

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._limits.poll_interval_ms / 1000)
            try:
                await work()
            except MetadataError as error:
                logger.warning("metadata background work failed and will be repeated: %s", error)
