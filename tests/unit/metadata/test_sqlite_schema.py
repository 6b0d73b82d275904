"""Which files open, and how they are set up."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.metadata.helpers_metadata import SqliteHarness

from towpath.metadata.sqlite.errors import UnsupportedDatabase
from towpath.metadata.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION
from towpath.metadata.store import StoreUnavailable


async def test_a_new_database_is_durable_and_versioned(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "deep" / "er" / "metadata.db")
    store = await harness.open()
    settings = await store._writer.submit(
        lambda tx: [
            tx.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "user_version", "application_id")
        ]
    )
    assert settings == ["wal", 2, SCHEMA_VERSION, APPLICATION_ID]
    await harness.close()


async def test_a_newer_release_s_database_is_refused_untouched(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path / "metadata.db")
    await (await harness.open()).put("/k", b"")
    await harness.close()
    with closing(sqlite3.connect(harness.path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = harness.path.read_bytes()
    with pytest.raises(UnsupportedDatabase, match="newer release"):
        await harness.open()
    assert harness.path.read_bytes() == before


async def test_another_program_s_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE kv (a, b)")
    before = path.read_bytes()
    with pytest.raises(UnsupportedDatabase, match="another SQLite database"):
        await SqliteHarness(path).open()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"not a database at all, but longer than a header of one hundred bytes" * 9)
    before = path.read_bytes()
    with pytest.raises(UnsupportedDatabase, match="not a SQLite database"):
        await SqliteHarness(path).open()
    assert path.read_bytes() == before


async def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot create"):
        await SqliteHarness(tmp_path / "file" / "metadata.db").open()
    (tmp_path / "directory.db").mkdir()
    with pytest.raises(StoreUnavailable, match="unable to open"):
        await SqliteHarness(tmp_path / "directory.db").open()
