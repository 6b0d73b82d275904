"""The tables, their version, and how a connection is opened.

`kv` is a table with a separate key index: a search for a stream's tail touches the index alone,
and large values stay out of its pages. TEXT compares byte by byte, which for UTF-8 is the order of
code points. `changes` has one row per revision, without gaps; its greatest revision is the
store's revision, so the trim always leaves the newest row.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from towpath.metadata.sqlite.errors import UnsupportedDatabase

SCHEMA_VERSION = 1
APPLICATION_ID = 0x546F7770
"""`Towp` in ASCII, at the place where `file` looks for it."""

_TABLES = """
CREATE TABLE kv (
  key TEXT PRIMARY KEY NOT NULL,
  value BLOB NOT NULL,
  version INTEGER NOT NULL,
  session INTEGER
);
CREATE INDEX kv_session ON kv (session) WHERE session IS NOT NULL;
CREATE TABLE changes (revision INTEGER PRIMARY KEY, keys TEXT NOT NULL);
CREATE TABLE sessions (
  session_id INTEGER PRIMARY KEY AUTOINCREMENT,
  ttl_ms INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  holder TEXT NOT NULL
);
CREATE TABLE probes (id INTEGER PRIMARY KEY CHECK (id = 1), at_ms INTEGER NOT NULL);
"""

_AUTO_CHECKPOINT_PAGES = 16_384
"""SQLite's own checkpoint inside COMMIT is only the net beneath the writer's."""


def open_writer(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    """A connection for writes, in WAL mode, on a database of this release's schema.

    The caller holds the writers' lock. Raises UnsupportedDatabase for a file of a newer release
    or of another program, and sqlite3.Error.
    """
    connection = _connect(path, busy_timeout_ms)
    try:
        check_release(connection, path)
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise UnsupportedDatabase(f"{path} does not lie on a local file system (no WAL mode)")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_AUTO_CHECKPOINT_PAGES}")
        _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    """A connection that cannot write, on a database that `open_writer` has prepared."""
    connection = _connect(path, busy_timeout_ms)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None)


def check_release(connection: sqlite3.Connection, path: Path) -> None:
    """Raise UnsupportedDatabase unless it is empty or a store that this release can read."""
    try:
        version = _number(connection, "PRAGMA user_version")
        application = _number(connection, "PRAGMA application_id")
        tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise UnsupportedDatabase(f"{path} is not a SQLite database") from error
        raise
    if tables and application != APPLICATION_ID:
        raise UnsupportedDatabase(f"{path} is not a metadata store but another SQLite database")
    if version > SCHEMA_VERSION:
        raise UnsupportedDatabase(
            f"{path} has schema version {version}, written by a newer release; "
            f"this release knows versions up to {SCHEMA_VERSION}"
        )


def _create_tables(connection: sqlite3.Connection) -> None:
    if _number(connection, "PRAGMA user_version") == SCHEMA_VERSION:
        return
    connection.executescript(
        f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {APPLICATION_ID};"
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _number(connection: sqlite3.Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])
