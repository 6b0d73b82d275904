"""Point reads on the event loop's thread.

A read in WAL mode waits for no writer and costs microseconds, less than a hop to another thread.
Every statement is read to its end, so that no read transaction stays open: the next read sees
whatever any process has committed by then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from towpath.metadata.sqlite.errors import unavailable
from towpath.metadata.sqlite.operations import DEAD_SESSIONS, dead_session_bounds
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.sqlite.schema import open_reader
from towpath.metadata.sqlite.transaction import read_tails
from towpath.metadata.store import KeyValue, Tail

READ_TIMEOUT_MS = 1_000
"""A reader only waits while another process repairs the log after a crash."""

SCAN_QUERY = "SELECT key, value, version FROM kv WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"


class Reader:
    """Reads the present state. Every method raises StoreUnavailable when SQLite fails."""

    def __init__(self, path: Path) -> None:
        self._connection = open_reader(path, READ_TIMEOUT_MS)

    def get(self, key: str) -> KeyValue | None:
        """One key."""
        return _first(self._rows("SELECT key, value, version FROM kv WHERE key = ?", (key,)))

    def scan(self, start: str, end: str, limit: int) -> list[KeyValue]:
        """The first keys of `[start, end)`."""
        return [KeyValue(*row) for row in self._rows(SCAN_QUERY, (start, end, limit))]

    def first_above(self, key: str, end: str) -> KeyValue | None:
        """The smallest key of `(key, end)`."""
        query = "SELECT key, value, version FROM kv WHERE key > ? AND key < ? ORDER BY key LIMIT 1"
        return _first(self._rows(query, (key, end)))

    def last(self, start: str, end: str) -> KeyValue | None:
        """The greatest key of `[start, end)`."""
        query = (
            "SELECT key, value, version FROM kv WHERE key >= ? AND key < ? "
            "ORDER BY key DESC LIMIT 1"
        )
        return _first(self._rows(query, (start, end)))

    def head(self) -> int:
        """The last revision."""
        return int(self._rows("SELECT max(revision) FROM changes", ())[0][0] or 0)

    def revisions_after(self, number: int, limit: int) -> list[Revision]:
        """The next revisions of the feed."""
        query = "SELECT revision, keys FROM changes WHERE revision > ? ORDER BY revision LIMIT ?"
        return [Revision.decode(*row) for row in self._rows(query, (number, limit))]

    def tails(self, stream_ids: Sequence[int]) -> tuple[list[Tail], int]:
        """The tails of the streams, and the revision at which they are so."""
        self._rows("BEGIN", ())
        try:
            return read_tails(self._connection, stream_ids), self.head()
        except sqlite3.Error as error:
            raise unavailable(error) from error
        finally:
            self._rows("ROLLBACK", ())

    def has_dead_sessions(self, boot_id: str, now_ms: int) -> bool:
        """Whether some session's holder is dead or silent."""
        return bool(self._rows(DEAD_SESSIONS, dead_session_bounds(boot_id, now_ms)))

    def session_holders(self) -> list[str]:
        """The processes that have sessions."""
        return [row[0] for row in self._rows("SELECT DISTINCT holder FROM sessions", ())]

    def close(self) -> None:
        """Release the connection."""
        self._connection.close()

    def _rows(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        try:
            return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise unavailable(error) from error


def _first(rows: list[Any]) -> KeyValue | None:
    return KeyValue(*rows[0]) if rows else None
