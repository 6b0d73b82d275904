"""Several users of one table: a commit is applied to exactly the state it was planned on."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from tests.unit.lakehouse import helpers_iceberg_child as child
from tests.unit.lakehouse.helpers_iceberg import (
    TOPIC,
    Lake,
    append,
    handle,
    offsets_by_duckdb,
    offsets_by_pyiceberg,
)

from towpath.lakehouse.iceberg.sqlite_catalog import SqliteCatalog
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.lakehouse.tables import (
    CatalogUnavailable,
    Change,
    CommitConflict,
    CommitUnknown,
    Mark,
    Table,
)
from towpath.runtime import ThreadOffload
from towpath.threads import WorkThreads

REPOSITORY = Path(child.__file__).parents[3]
PROCESSES = 3
COMMITS_EACH = 6


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


async def start_child(root: Path, name: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        child.__file__,
        str(root),
        name,
        str(COMMITS_EACH),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
    )


async def test_processes_make_one_table_and_append_each_record_once(lake: Lake) -> None:
    children = [await start_child(lake.root, f"p{number}") for number in range(PROCESSES)]
    outputs = [await process.communicate() for process in children]
    assert [process.returncode for process in children] == [0] * PROCESSES
    got = sorted(int(line) for output, _ in outputs for line in output.split())
    total = PROCESSES * COMMITS_EACH
    assert got == list(range(total))
    table = await lake.tables().load(TOPIC)
    assert table is not None
    assert table.mark(0).end == table.sequence_number == total
    expected = [(0, offset) for offset in range(total)]
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == expected


async def test_a_late_commit_changes_nothing_and_leaves_nothing(lake: Lake) -> None:
    late, quick = lake.tables(), lake.tables()
    loaded = await late.create(TOPIC)
    seen = await quick.load(TOPIC)
    assert seen is not None
    file = lake.write(seen.field_ids, 0, range(5))
    table = await quick.commit(seen, append(seen, (0, file), task="quick"))
    files = lake.metadata_files()
    again = lake.write(loaded.field_ids, 0, range(5))
    with pytest.raises(CommitConflict):
        await late.commit(loaded, append(loaded, (0, again), task="late"))
    assert lake.metadata_files() == files
    current = await late.load(TOPIC)
    assert current == table
    assert offsets_by_pyiceberg(table) == [(0, offset) for offset in range(5)]


async def test_nothing_is_repeated_whatever_the_table_says(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    with handle(table).transaction() as change:
        change.set_properties({"commit.retry.num-retries": "10"})
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    attempts = []

    def refuse(catalog: SqliteCatalog, location: str, table: object) -> None:
        attempts.append(location)
        raise CommitFailedException("others")

    monkeypatch.setattr(SqliteCatalog, "_point_to", refuse)
    with pytest.raises(CommitConflict):
        await tables.commit(loaded, Change({0: Mark(1, "t")}))
    assert len(attempts) == 1


async def test_a_change_of_properties_alone_is_seen(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    other = await lake.tables().load(TOPIC)
    assert other is not None
    with handle(other).transaction() as change:
        change.set_properties({"comment": "by hand"})
    with pytest.raises(CommitConflict):
        await tables.commit(table, Change({0: Mark(1, "t")}))
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    after = await tables.commit(loaded, Change({0: Mark(1, "t")}))
    assert handle(after).metadata.properties["comment"] == "by hand"


async def test_an_unclear_commit_is_recognised_by_its_mark(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    point_to = SqliteCatalog._point_to

    def apply_and_fail(catalog: SqliteCatalog, location: str, table: object) -> None:
        point_to(catalog, location, table)  # type: ignore[arg-type]
        raise ConnectionResetError("the answer was lost")

    monkeypatch.setattr(SqliteCatalog, "_point_to", apply_and_fail)
    file = lake.write(table.field_ids, 0, range(5))
    with pytest.raises(CommitUnknown, match="answer was lost"):
        await tables.commit(table, append(table, (0, file), task="mine"))
    monkeypatch.undo()
    found = await lake.tables().load(TOPIC)
    assert found is not None
    assert found.mark(0) == Mark(5, "mine")
    assert offsets_by_pyiceberg(found) == [(0, offset) for offset in range(5)]
    with pytest.raises(CommitConflict):
        await tables.commit(table, append(table, (0, file), task="mine"))


async def test_a_locked_catalog_was_not_changed(lake: Lake) -> None:
    impatient = {"uri": lake.catalog.properties["uri"] + "?timeout=0.01"}
    lake.catalog = replace(lake.catalog, properties=impatient)
    tables = lake.tables()
    table = await tables.create(TOPIC)
    files = lake.metadata_files()
    with sqlite3.connect(lake.root / "catalog.sqlite", isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogUnavailable, match="locked"):
            await tables.commit(table, Change({0: Mark(1, "t")}))
        # Readers do not wait for writers.
        assert await tables.load(TOPIC) == table
        holder.execute("ROLLBACK")
    holder.close()
    assert {name for name in lake.metadata_files() - files if name.endswith(".avro")} == set()
    assert (await tables.commit(table, Change({0: Mark(1, "t")}))).mark(0).end == 1


async def test_what_pyiceberg_itself_commits_is_respected(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    theirs = SqlCatalog("towpath", uri=f"sqlite:///{lake.root}/catalog.sqlite")
    loaded = theirs.load_table(("towpath", TOPIC.name))
    rows = lake.write(table.field_ids, 0, range(3))
    loaded.add_files([f"file://{lake.objects / rows.path}"])
    with pytest.raises(CommitConflict):
        await tables.commit(table, Change({0: Mark(3, "t")}))
    table = await seen(lake)
    table = await tables.commit(
        table, append(table, (0, lake.write(table.field_ids, 0, range(3, 5))))
    )
    assert offsets_by_pyiceberg(table) == [(0, offset) for offset in range(5)]
    theirs.close()


async def test_a_broken_catalog_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"this is not a database" * 100)
    with pytest.raises(CatalogUnavailable, match="not a database"):
        await Lake.at(tmp_path).tables().load(TOPIC)


async def seen(lake: Lake) -> Table:
    table = await lake.tables().load(TOPIC)
    assert table is not None
    return table


class NeverOffload:
    """Takes work and never ends it."""

    async def __call__(self, work: object, /, *args: object, **kwargs: object) -> Any:
        await asyncio.Event().wait()


async def test_every_wait_ends(lake: Lake) -> None:
    table = await lake.tables().create(TOPIC)
    stuck = IcebergTables(lake.settings(call_timeout_ms=10), NeverOffload(), lake.clock)
    with pytest.raises(CatalogUnavailable, match="no answer"):
        await stuck.load(TOPIC)
    with pytest.raises(CommitUnknown, match="no answer"):
        await stuck.commit(table, Change({0: Mark(1, "t")}))


async def test_calls_run_in_threads(lake: Lake) -> None:
    threads = WorkThreads(2, "test")
    tables = IcebergTables(lake.settings(), ThreadOffload(threads), lake.clock)
    table = await tables.create(TOPIC)
    other = await tables.create(replace(TOPIC, name="other", number=8))
    for number in range(3):
        table, other = await asyncio.gather(
            tables.commit(table, Change({0: Mark(number, f"task-{number}")})),
            tables.commit(other, Change({0: Mark(number, f"task-{number}")})),
        )
    assert table.sequence_number == other.sequence_number == 3
    await tables.close()
    threads.close()
