"""Reading SQLite files that others may be opening and closing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from towpath.metadata.sqlite.read_only import read_sqlite
from towpath.metadata.store import StoreUnavailable


def test_a_database_that_is_opened_meanwhile_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (a)")
    writer.close()
    seen = []

    def work(connection: sqlite3.Connection) -> int:
        (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
        seen.append(count)
        if len(seen) == 1:
            again = sqlite3.connect(path, isolation_level=None)
            again.execute("INSERT INTO t VALUES (1)")
            opened.append(again)
        return int(count)

    opened: list[sqlite3.Connection] = []
    assert read_sqlite(path, work) == 1
    assert seen == [0, 1]
    opened[0].close()


def test_a_database_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(StoreUnavailable, match="file is not a database"):
        read_sqlite(path, lambda c: c.execute("SELECT 1 FROM t").fetchone())
