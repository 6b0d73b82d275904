"""The writes of the store, each as a function of the transaction it runs in.

Every function does all its checks before its first change (see `Transaction`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from towpath.metadata.rules import assign_offsets, check_expectation, failed_conditions
from towpath.metadata.sqlite.transaction import Transaction
from towpath.metadata.store import (
    Append,
    Committed,
    Condition,
    ConditionFailed,
    Expect,
    KeyIs,
    Put,
    SessionExpired,
    TailIs,
)

DEAD_SESSIONS = (
    "SELECT session_id FROM sessions "
    "WHERE boot_id <> ? OR seen_ms + ttl_ms < ? OR seen_ms > ? ORDER BY session_id LIMIT 100"
)
"""Sessions of another boot, silent for longer than their time to live, or seen in the future
(the clock went back, so the machine was restarted)."""

CLOCK_SLACK_MS = 1_000


def dead_session_bounds(boot_id: str, now_ms: int) -> tuple[str, int, int]:
    """The parameters of `DEAD_SESSIONS`."""
    return boot_id, now_ms, now_ms + CLOCK_SLACK_MS


def put(tx: Transaction, key: str, value: bytes, expect: Expect, session_id: int | None) -> int:
    """Write one key; its new version."""
    if session_id is not None and not _session_exists(tx, session_id):
        raise SessionExpired(f"session {session_id} is over")
    check_expectation(key, tx.version_of(key), expect)
    return tx.write([(key, value)], (), session_id)


def delete(tx: Transaction, key: str, expect: Expect) -> bool:
    """Delete one key; whether it existed."""
    version = tx.version_of(key)
    check_expectation(key, version, expect)
    if version is None:
        return False
    tx.write((), [key])
    return True


def commit(
    tx: Transaction,
    appends: Sequence[Append],
    puts: Sequence[Put],
    deletes: Sequence[str],
    expect: Sequence[Condition],
) -> Committed:
    """Do all of it as one revision, or raise ConditionFailed."""
    watched = {condition.stream_id for condition in expect if isinstance(condition, TailIs)}
    before = tx.tails_of(sorted(watched.union(append.stream_id for append in appends)))
    named = tx.versions_of([condition.key for condition in expect if isinstance(condition, KeyIs)])
    failed = failed_conditions(expect, named.get, before.__getitem__)
    if failed:
        raise ConditionFailed(failed)
    tails, keys = assign_offsets(appends, puts, deletes, before.__getitem__)
    existing = [key for key in deletes if tx.version_of(key) is not None]
    entries = [(key, append.value) for key, append in zip(keys, appends, strict=True)]
    revision = tx.write([*entries, *((each.key, each.value) for each in puts)], existing)
    return Committed(tails, revision)


def open_session(tx: Transaction, ttl_ms: int, now_ms: int, boot_id: str, holder: str) -> int:
    """A new session's id; ids are never reused. `holder` names the lock file of its process."""
    cursor = tx.connection.execute(
        "INSERT INTO sessions (ttl_ms, seen_ms, boot_id, holder) VALUES (?, ?, ?, ?)",
        (ttl_ms, now_ms, boot_id, holder),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def keep_alive(tx: Transaction, session_ids: Iterable[int], now_ms: int) -> set[int]:
    """Mark the sessions as seen; the ids of those that are gone."""
    update = "UPDATE sessions SET seen_ms = ? WHERE session_id = ?"
    return {
        session_id
        for session_id in session_ids
        if tx.connection.execute(update, (now_ms, session_id)).rowcount == 0
    }


def end_sessions(tx: Transaction, session_ids: Sequence[int]) -> None:
    """Remove the sessions and, as one revision, their ephemeral keys."""
    keys: list[str] = []
    for session_id in session_ids:
        keys += tx.keys_of_session(session_id)
    for session_id in session_ids:
        tx.connection.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
    tx.write((), keys)


def expire_sessions(tx: Transaction, boot_id: str, now_ms: int) -> None:
    """End the sessions whose holder is dead or silent, as judged at this moment."""
    bounds = dead_session_bounds(boot_id, now_ms)
    end_sessions(tx, [row[0] for row in tx.connection.execute(DEAD_SESSIONS, bounds).fetchall()])


def end_sessions_of(tx: Transaction, holder: str) -> None:
    """End the sessions of a process that is dead for sure."""
    query = "SELECT session_id FROM sessions WHERE holder = ?"
    end_sessions(tx, [row[0] for row in tx.connection.execute(query, (holder,)).fetchall()])


def probe(tx: Transaction, now_ms: int) -> None:
    """Write something that nobody reads."""
    tx.connection.execute("INSERT OR REPLACE INTO probes (id, at_ms) VALUES (1, ?)", (now_ms,))


def _session_exists(tx: Transaction, session_id: int) -> bool:
    query = "SELECT 1 FROM sessions WHERE session_id = ?"
    return tx.connection.execute(query, (session_id,)).fetchone() is not None
