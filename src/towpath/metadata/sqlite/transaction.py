"""The state of one SQLite write transaction, which several writes may share."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

from towpath.metadata.keys import streams
from towpath.metadata.rules import tail_of_key
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.store import Tail

_TRIMS_PER_WINDOW = 16
"""The feed is trimmed this often while it grows by as many revisions as it keeps."""


_GREATEST_KEY = "SELECT max(key) FROM kv WHERE key >= ? AND key < ?"
_ROWS_PER_STATEMENT = 16
"""Python gives the interpreter away and fights for it again around each statement, which costs more
than the statement when the event loop is busy: one does the work of many."""


@cache
def _upsert(row_count: int) -> str:
    return (
        "INSERT INTO kv (key, value, version, session) VALUES "
        + ", ".join(["(?, ?, ?, ?)"] * row_count)
        + " ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, "
        "session = excluded.session"
    )


@cache
def _versions(key_count: int) -> str:
    return f"SELECT key, version FROM kv WHERE key IN ({', '.join('?' * key_count)})"


@cache
def _greatest_keys(range_count: int) -> str:
    return " UNION ALL ".join([_GREATEST_KEY] * range_count)


def read_tails(connection: sqlite3.Connection, stream_ids: Sequence[int]) -> list[Tail]:
    """The tails of the streams, in their order, by their greatest index keys."""
    tails: list[Tail] = []
    for start in range(0, len(stream_ids), _ROWS_PER_STATEMENT):
        page = stream_ids[start : start + _ROWS_PER_STATEMENT]
        bounds: list[str] = []
        for stream_id in page:
            bounds += (streams.index_prefix(stream_id), streams.index_end(stream_id))
        rows = connection.execute(_greatest_keys(len(page)), bounds).fetchall()
        tails += [tail_of_key(key) for (key,) in rows]
    return tails


class Transaction:
    """Reads and writes between BEGIN IMMEDIATE and COMMIT, on the writer's thread.

    A write must do all its checks before its first change, because a refused write shares the
    transaction with others that go on.
    """

    def __init__(self, connection: sqlite3.Connection, changes_kept: int) -> None:
        self.connection = connection
        self._changes_kept = changes_kept
        self._trim_every = max(1, changes_kept // _TRIMS_PER_WINDOW)
        row = connection.execute("SELECT max(revision) FROM changes").fetchone()
        self.revision: int = row[0] or 0
        """The last revision, those of this transaction included."""
        self.revisions: list[Revision] = []
        """The revisions of this transaction, in order."""

    def version_of(self, key: str) -> int | None:
        """The key's version, None if it does not exist."""
        row = self.connection.execute("SELECT version FROM kv WHERE key = ?", (key,)).fetchone()
        return None if row is None else int(row[0])

    def versions_of(self, keys: Sequence[str]) -> dict[str, int]:
        """The versions of those keys that exist."""
        found: dict[str, int] = {}
        for start in range(0, len(keys), _ROWS_PER_STATEMENT):
            page = keys[start : start + _ROWS_PER_STATEMENT]
            found.update(self.connection.execute(_versions(len(page)), page).fetchall())
        return found

    def tails_of(self, stream_ids: Sequence[int]) -> dict[int, Tail]:
        """The streams' tails by their greatest index keys."""
        return dict(zip(stream_ids, read_tails(self.connection, stream_ids), strict=True))

    def keys_of_session(self, session_id: int) -> list[str]:
        """The ephemeral keys of a session, in order."""
        query = "SELECT key FROM kv WHERE session = ? ORDER BY key"
        return [key for (key,) in self.connection.execute(query, (session_id,)).fetchall()]

    def write(
        self,
        puts: Sequence[tuple[str, bytes]],
        deletes: Sequence[str],
        session_id: int | None = None,
    ) -> int:
        """Put and delete as one revision and return its number. `deletes` must exist.

        A write that changes nothing has no revision of its own and returns the last one.
        """
        if not puts and not deletes:
            return self.revision
        number = self.revision + 1
        execute = self.connection.execute
        for start in range(0, len(puts), _ROWS_PER_STATEMENT):
            page = puts[start : start + _ROWS_PER_STATEMENT]
            values: list[object] = []
            for key, value in page:
                values += (key, value, number, session_id)
            execute(_upsert(len(page)), values)
        for key in deletes:
            execute("DELETE FROM kv WHERE key = ?", (key,))
        revision = Revision.of(number, (key for key, _ in puts), deletes)
        execute("INSERT INTO changes (revision, keys) VALUES (?, ?)", (number, revision.encode()))
        if number % self._trim_every == 0:
            execute("DELETE FROM changes WHERE revision <= ?", (number - self._changes_kept,))
        self.revision = number
        self.revisions.append(revision)
        return number
