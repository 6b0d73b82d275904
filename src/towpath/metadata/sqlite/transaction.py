"""The state of one SQLite write transaction, which several writes may share."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from towpath.metadata.keys import streams
from towpath.metadata.rules import tail_of_key
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.store import Tail

_TRIMS_PER_WINDOW = 16
"""The feed is trimmed this often while it grows by as many revisions as it keeps."""

TAIL_QUERY = "SELECT key FROM kv WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"

_UPSERT = (
    "INSERT INTO kv (key, value, version, session) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version, "
    "session = excluded.session"
)


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

    def tail_of(self, stream_id: int) -> Tail:
        """The stream's tail by its greatest index key."""
        bounds = (streams.index_prefix(stream_id), streams.index_end(stream_id))
        row = self.connection.execute(TAIL_QUERY, bounds).fetchone()
        return tail_of_key(None if row is None else row[0])

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
        for key, value in puts:
            execute(_UPSERT, (key, value, number, session_id))
        for key in deletes:
            execute("DELETE FROM kv WHERE key = ?", (key,))
        revision = Revision.of(number, (key for key, _ in puts), deletes)
        execute("INSERT INTO changes (revision, keys) VALUES (?, ?)", (number, revision.encode()))
        if number % self._trim_every == 0:
            execute("DELETE FROM changes WHERE revision <= ?", (number - self._changes_kept,))
        self.revision = number
        self.revisions.append(revision)
        return number
