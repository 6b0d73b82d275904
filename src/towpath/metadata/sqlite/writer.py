"""The one thread that writes: group commit under the lock of all processes.

The thread takes the lock file, begins a SQLite transaction, and only then claims what is queued:
all of it shares one fdatasync. Until a write is claimed it can be withdrawn with the certainty
that nothing happened, which bounds every wait for a lock. Once claimed it is decided within one
transaction, and its caller waits for the decision: an answer of "unknown" while the commit still
runs could not be settled by looking.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from towpath.metadata.sqlite.errors import failed_commit, unavailable
from towpath.metadata.sqlite.limits import SqliteLimits
from towpath.metadata.sqlite.lock_file import LockFile
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.sqlite.schema import open_writer
from towpath.metadata.sqlite.transaction import Transaction
from towpath.metadata.sqlite.write_queue import Write, WriteQueue
from towpath.metadata.store import MetadataError, StoreUnavailable

logger = logging.getLogger(__name__)

R = TypeVar("R")

CLOSE_SLACK_MS = 1_000
"""How much longer than a write may wait `close` waits: no write is queued any more by then."""

OnCommitted = Callable[[Sequence[Revision]], None]
"""Called on the loop with the revisions of a transaction, before its callers are answered."""

_Outcome = tuple[list[Write], Sequence[Revision]]
"""Writes that are decided, and the revisions of their transaction."""


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(
        self, path: Path, limits: SqliteLimits, on_committed: OnCommitted, wake: Callable[[], None]
    ) -> None:
        """`wake` is called on the writer's thread after each commit that changed a key."""
        self._path = path
        self._limits = limits
        self._on_committed = on_committed
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._queue = WriteQueue(limits.queued_writes)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._stopped = asyncio.Event()
        self._rows_at_checkpoint = 0
        self._thread = threading.Thread(target=self._run, name="towpath-sqlite", daemon=True)

    async def start(self) -> None:
        """Open the database, creating it if need be. Raises MetadataError."""
        self._thread.start()
        try:
            async with asyncio.timeout(self._limits.write_timeout_ms / 1000):
                await self._opened
        except TimeoutError:
            self._queue.close()
            raise StoreUnavailable(
                f"{self._path} is locked by another process "
                f"(waited {self._limits.write_timeout_ms} ms)"
            ) from None
        except asyncio.CancelledError:
            self._queue.close()
            raise

    async def submit(self, work: Callable[[Transaction], R]) -> R:
        """Run `work` in a transaction and return its result once that is durable.

        Raises what `work` raises, StoreUnavailable, or OutcomeUnknown. A caller that is cancelled
        before the write was claimed withdraws it.
        """
        write = Write(work, self._loop.create_future())
        self._queue.add(write)
        timeout_s = self._limits.write_timeout_ms / 1000
        timer = self._loop.call_later(timeout_s, self._time_out, write)
        try:
            result: R = await write.future
            return result
        except asyncio.CancelledError:
            self._queue.withdraw(write)
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Write what is queued, then stop the thread.

        If another process holds the lock for longer than a write may wait, the thread is left to
        end by itself as soon as it gets the lock.
        """
        self._queue.close()
        try:
            async with asyncio.timeout((self._limits.write_timeout_ms + CLOSE_SLACK_MS) / 1000):
                await self._stopped.wait()
        except TimeoutError:
            logger.warning("%s: another process holds the lock at close", self._path)
        else:
            self._thread.join()

    def _time_out(self, write: Write) -> None:
        if self._queue.withdraw(write):
            write.error = StoreUnavailable(
                f"no turn to write to {self._path} within {self._limits.write_timeout_ms} ms: "
                "another process holds its lock"
            )
            write.answer()

    # What follows runs on the writer's thread.

    def _run(self) -> None:
        try:
            lock = LockFile(self._path.with_name(self._path.name + "-lock"))
            with lock.held():
                connection = open_writer(self._path, self._limits.write_timeout_ms)
        except (sqlite3.Error, OSError, MetadataError) as error:
            self._call_loop(self._answer_open, _as_metadata_error(error))
            self._call_loop(self._stopped.set)
            return
        self._call_loop(self._answer_open, None)
        while self._queue.wait():
            self._round(lock, connection)
        self._close(lock, connection)
        self._call_loop(self._stopped.set)

    def _answer_open(self, error: MetadataError | None) -> None:
        if self._opened.done():
            return
        if error is None:
            self._opened.set_result(None)
        else:
            self._opened.set_exception(error)

    def _round(self, lock: LockFile, connection: sqlite3.Connection) -> None:
        try:
            with lock.held():
                group, revisions = self._write_group(connection)
        except OSError as error:
            group, revisions = self._failed(
                self._claim(), StoreUnavailable(f"the lock file failed: {error}")
            )
        # Without the lock: whatever becomes of this process once its callers go on, also if it
        # is stopped, the other processes can write.
        self._call_loop(self._answer, group, revisions)
        if revisions:
            self._wake()
        self._checkpoint(lock, connection)

    def _claim(self) -> list[Write]:
        return self._queue.claim(self._limits.grouped_writes)

    def _write_group(self, connection: sqlite3.Connection) -> _Outcome:
        """Write what is queued; the writes with their results or errors, and the revisions."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            return self._failed(self._claim(), unavailable(error))
        group = self._claim()
        revisions: Sequence[Revision] = ()
        failure: Exception | None
        try:
            revisions = self._execute(connection, group)
            failure = None
        except sqlite3.Error as error:
            failure = unavailable(error)
        except Exception as error:
            logger.exception("a metadata write failed")
            failure = StoreUnavailable(f"a metadata write failed: {error!r}")
        if failure is None:
            failure = self._commit(connection)
        if failure is not None:
            self._roll_back(connection)
            return self._failed(group, failure)
        return group, revisions

    def _execute(self, connection: sqlite3.Connection, group: list[Write]) -> Sequence[Revision]:
        transaction = Transaction(connection, self._limits.changes_kept)
        for write in group:
            rows_before = connection.total_changes
            try:
                write.result = write.work(transaction)
            except (MetadataError, ValueError) as refusal:
                # The others of the group go on, so a refused write must have left no trace.
                if connection.total_changes != rows_before:
                    raise
                write.error = refusal
        return transaction.revisions

    def _commit(self, connection: sqlite3.Connection) -> Exception | None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            return failed_commit(error)
        return None

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        # SQLite rolls back by itself after some failures.
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                logger.exception("the metadata transaction cannot be rolled back")

    def _failed(self, group: list[Write], failure: Exception) -> _Outcome:
        for write in group:
            write.error = type(failure)(*failure.args)
        return group, ()

    def _answer(self, group: list[Write], revisions: Sequence[Revision]) -> None:
        """Runs on the loop."""
        if revisions:
            self._on_committed(revisions)
        for write in group:
            write.answer()

    def _checkpoint(self, lock: LockFile, connection: sqlite3.Connection) -> None:
        """Move the log into the database now and then, after the callers were answered."""
        if connection.total_changes - self._rows_at_checkpoint < self._limits.checkpoint_rows:
            return
        self._rows_at_checkpoint = connection.total_changes
        try:
            with lock.held():
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except (sqlite3.Error, OSError):
            logger.exception("the checkpoint of %s failed; the next one will do it", self._path)

    def _close(self, lock: LockFile, connection: sqlite3.Connection) -> None:
        try:
            # Closing the last connection checkpoints, which is a write.
            with lock.held():
                connection.close()
        except (sqlite3.Error, OSError):
            logger.exception("closing %s failed", self._path)
        lock.close()

    def _call_loop(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed: nobody waits for the answer any more.
            logger.debug("the event loop was closed before the metadata writer")


def _as_metadata_error(error: Exception) -> MetadataError:
    if isinstance(error, MetadataError):
        return error
    if isinstance(error, sqlite3.Error):
        return unavailable(error)
    return StoreUnavailable(f"the metadata database cannot be opened: {error}")
