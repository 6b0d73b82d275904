"""Snapshots expire, and only the files that nobody needs any more are deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.statistics import StatisticsFile
from tests.unit.lakehouse.helpers_iceberg import (
    TOPIC,
    Lake,
    append,
    handle,
    numbered,
    offsets_by_duckdb,
    offsets_by_pyiceberg,
)

from towpath.lakehouse.iceberg.maintenance import HOUR_MS, Cleaner, UpkeepSettings
from towpath.lakehouse.iceberg.manifests import Manifests
from towpath.lakehouse.iceberg.tables import IcebergTables
from towpath.lakehouse.tables import Change, CommitConflict, Mark, Table
from towpath.objects.fs import FsObjectStore
from towpath.runtime import inline_runtime

KEEP_ALL = UpkeepSettings(snapshots_max=1_000)
KEEP_FIVE = UpkeepSettings(snapshots_min=1, snapshots_max=5, snapshots_per_expiry=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


async def appended(lake: Lake, tables: IcebergTables, table: Table, count: int) -> Table:
    tasks = numbered()
    for _ in range(count):
        end = table.mark(0).end
        file = lake.write(table.field_ids, 0, [end, end + 1])
        table = await tables.commit(table, append(table, (0, file), task=next(tasks)))
        lake.clock.time_ms += 1_000
    return table


def named_files(table: Table) -> set[str]:
    """What pyiceberg says the table needs."""
    found = handle(table)
    files = {found.metadata_location, *(log.metadata_file for log in found.metadata.metadata_log)}
    for snapshot in found.metadata.snapshots:
        files |= {manifest.manifest_path for manifest in snapshot.manifests(found.io)}
        files.add(snapshot.manifest_list)
    return {file.rpartition("/")[2] for file in files}


async def test_nothing_is_due_in_a_young_table(lake: Lake) -> None:
    tables = lake.tables()
    table = await appended(lake, tables, await tables.create(TOPIC), 15)
    maintained = await tables.maintain(table)
    assert maintained.table is table
    assert (maintained.expired_snapshots, maintained.deleted_metadata_files) == (0, 0)


async def test_old_snapshots_go_with_their_files_and_no_others(lake: Lake) -> None:
    tables = lake.tables(KEEP_ALL)
    table = await appended(lake, tables, await tables.create(TOPIC), 40)
    before = offsets_by_pyiceberg(table)
    lake.clock.time_ms += HOUR_MS
    maintained = await tables.maintain(table)
    table = maintained.table
    assert maintained.expired_snapshots == 20
    assert maintained.deleted_metadata_files >= 20
    assert table.oldest_sequence_number == 21
    assert table.sequence_number == 40
    assert lake.metadata_files() == named_files(table)
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == before
    assert table == await lake.tables().load(TOPIC)


async def test_time_travel_to_every_kept_snapshot_works(lake: Lake) -> None:
    tables = lake.tables(KEEP_ALL)
    table = await appended(lake, tables, await tables.create(TOPIC), 30)
    lake.clock.time_ms += HOUR_MS
    table = (await tables.maintain(table)).table
    fresh = await lake.tables().load(TOPIC)
    assert fresh is not None
    for snapshot in handle(fresh).metadata.snapshots:
        assert snapshot.sequence_number is not None
        offsets = offsets_by_pyiceberg(fresh, snapshot.snapshot_id)
        assert offsets == [(0, offset) for offset in range(2 * snapshot.sequence_number)]


async def test_a_commit_expires_what_is_too_many(lake: Lake) -> None:
    tables = lake.tables(KEEP_FIVE)
    table = await appended(lake, tables, await tables.create(TOPIC), 60)
    assert len(handle(table).metadata.snapshots) <= 6
    assert lake.metadata_files() == named_files(table)
    assert offsets_by_pyiceberg(table) == [(0, offset) for offset in range(120)]
    assert len(lake.metadata_files()) < 45


async def test_replaced_files_leave_the_history(lake: Lake) -> None:
    tables = lake.tables(KEEP_FIVE)
    table = await tables.create(TOPIC)
    for round_number in range(5):
        table = await appended(lake, tables, table, 8)
        old = await tables.files_below(table, {0: table.mark(0).end})
        large = lake.write(table.field_ids, 0, range(table.mark(0).end))
        mark = Mark(table.mark(0).end, table.mark(0).task_id, f"rewrite-{round_number}")
        table = await tables.commit(table, Change({0: mark}, [(0, large)], old, changes_rows=False))
    assert len(await tables.files(table)) == 1
    assert lake.metadata_files() == named_files(table)
    assert offsets_by_pyiceberg(table) == [(0, offset) for offset in range(80)]


async def test_an_idle_table_forgets_all_but_the_last_snapshot(lake: Lake) -> None:
    tables = lake.tables()
    table = await appended(lake, tables, await tables.create(TOPIC), 5)
    lake.clock.time_ms += 24 * HOUR_MS
    maintained = await tables.maintain(table)
    assert maintained.expired_snapshots == 4
    assert maintained.table.oldest_sequence_number == 5
    assert await tables.maintain(maintained.table) == type(maintained)(maintained.table)


async def test_tags_and_branches_are_kept(lake: Lake) -> None:
    tables = lake.tables(KEEP_ALL)
    table = await appended(lake, tables, await tables.create(TOPIC), 30)
    first, second = handle(table).metadata.snapshots[:2]
    with handle(table).manage_snapshots() as change:
        change.create_tag(first.snapshot_id, "start").create_branch(second.snapshot_id, "mine")
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    lake.clock.time_ms += 48 * HOUR_MS
    table = (await tables.maintain(loaded)).table
    kept = {snapshot.snapshot_id for snapshot in handle(table).metadata.snapshots}
    assert kept == {first.snapshot_id, second.snapshot_id, table.snapshot_id}
    assert len(offsets_by_pyiceberg(table, first.snapshot_id)) == 2
    assert len(offsets_by_pyiceberg(table, second.snapshot_id)) == 4
    assert table.oldest_sequence_number == 1
    assert lake.metadata_files() == named_files(table)


async def test_manifests_of_a_rolled_back_table_are_kept(lake: Lake) -> None:
    tables = lake.tables(KEEP_ALL)
    table = await appended(lake, tables, await tables.create(TOPIC), 10)
    early = handle(table).metadata.snapshots[2]
    table = await appended(lake, tables, table, 20)
    with handle(table).manage_snapshots() as change:
        change.rollback_to_snapshot(early.snapshot_id)
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    assert loaded.snapshot_id == early.snapshot_id
    lake.clock.time_ms += 48 * HOUR_MS
    table = await tables.commit(loaded, Change({0: table.mark(0)}))
    table = (await tables.maintain(table)).table
    assert len(offsets_by_pyiceberg(table)) == 6
    assert lake.metadata_files() == named_files(table)


async def test_maintenance_gives_way_to_a_commit(lake: Lake) -> None:
    tables, others = lake.tables(KEEP_ALL), lake.tables(KEEP_ALL)
    table = await appended(lake, tables, await tables.create(TOPIC), 30)
    newer = await appended(lake, others, table, 1)
    lake.clock.time_ms += HOUR_MS
    files = lake.metadata_files()
    maintained = await tables.maintain(table)
    assert maintained.expired_snapshots == 0
    assert maintained.table is table
    assert lake.metadata_files() == files
    assert (await tables.maintain(newer)).expired_snapshots == 11


async def test_a_state_whose_manifests_are_gone_conflicts(lake: Lake) -> None:
    tables, others = lake.tables(KEEP_ALL), lake.tables(KEEP_FIVE)
    table = await appended(lake, tables, await tables.create(TOPIC), 2)
    await appended(lake, others, table, 20)
    late = lake.tables(KEEP_ALL)
    with pytest.raises(CommitConflict):
        await late.commit(table, Change({0: Mark(100, "late")}))


async def test_statistics_live_as_long_as_their_snapshot(lake: Lake) -> None:
    tables = lake.tables(KEEP_ALL)
    table = await appended(lake, tables, await tables.create(TOPIC), 25)
    directory = lake.objects / f"towpath/iceberg/topic={TOPIC.name}/metadata"
    snapshots = handle(table).metadata.snapshots
    with handle(table).update_statistics() as change:
        for snapshot in (snapshots[0], snapshots[-1]):
            file = directory / f"{snapshot.snapshot_id}.stats"
            file.write_bytes(b"puffin")
            change.set_statistics(statistics(snapshot.snapshot_id, f"file://{file}"))
    loaded = await tables.load(TOPIC)
    assert loaded is not None
    lake.clock.time_ms += 2 * HOUR_MS
    await tables.maintain(loaded)
    left = [name for name in lake.metadata_files() if name.endswith(".stats")]
    assert left == [f"{snapshots[-1].snapshot_id}.stats"]


def statistics(snapshot_id: int, path: str) -> StatisticsFile:
    return StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 6,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
    )


async def test_many_partitions_shorten_the_history(lake: Lake) -> None:
    upkeep = UpkeepSettings(snapshots_min=2, snapshots_per_expiry=1, summaries_max_bytes=4_000)
    tables = lake.tables(upkeep)
    table = await tables.create(TOPIC)
    for number in range(12):
        marks = {partition: Mark(number + 1, f"task-{number}") for partition in range(100)}
        table = await tables.commit(table, Change(marks))
    assert len(handle(table).metadata.snapshots) <= 6
    assert len(table.marks) == 100


async def test_a_sweep_deletes_what_nothing_names(lake: Lake) -> None:
    tables = lake.tables(KEEP_FIVE)
    table = await appended(lake, tables, await tables.create(TOPIC), 9)
    uuid = handle(table).metadata.table_uuid
    directory = lake.objects / f"towpath/iceberg/topic={TOPIC.name}/metadata"
    current = (directory / handle(table).metadata_location.rpartition("/")[2]).read_bytes()
    orphans = {
        f"{uuid}-123-m0.avro": b"x",
        f"snap-123-0-{uuid}.avro": b"x",
        "00099-lost.metadata.json": current,
    }
    foreign = {
        "00000000-0000-0000-0000-000000000000-123-m0.avro": b"x",
        "snap-123-0-00000000-0000-0000-0000-000000000000.avro": b"x",
        "00098-broken.metadata.json": current[:50],
        "00097-theirs.metadata.json": current.replace(
            str(uuid).encode(), b"00000000-0000-0000-0000-000000000000"
        ),
        "version-hint.text": b"1",
    }
    for name, content in {**orphans, **foreign}.items():
        (directory / name).write_bytes(content)
    store = FsObjectStore(str(lake.objects), inline_runtime())
    lake.clock.time_ms = 0
    assert await tables.sweep_metadata(table, store.list, store.delete) == 0
    lake.clock.time_ms = 1 << 50
    assert await tables.sweep_metadata(table, store.list, store.delete) == len(orphans)
    assert lake.metadata_files() == named_files(table) | set(foreign)
    assert len(offsets_by_pyiceberg(table)) == 18
    await store.close()


async def test_a_sweep_sees_what_was_committed_after_it_was_loaded(lake: Lake) -> None:
    tables = lake.tables(KEEP_ALL)
    old = await appended(lake, tables, await tables.create(TOPIC), 2)
    new = await appended(lake, lake.tables(KEEP_ALL), old, 2)
    store = FsObjectStore(str(lake.objects), inline_runtime())
    lake.clock.time_ms = 1 << 50
    assert await tables.sweep_metadata(old, store.list, store.delete) == 0
    assert lake.metadata_files() == named_files(new)
    await store.close()


async def test_a_failed_deletion_does_not_fail_the_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = lake.tables(KEEP_FIVE)
    table = await appended(lake, tables, await tables.create(TOPIC), 5)
    directory = lake.objects / f"towpath/iceberg/topic={TOPIC.name}/metadata"

    def refuse(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(type(handle(table).io), "delete", refuse)
    table = await appended(lake, tables, table, 5)
    monkeypatch.undo()
    assert len(handle(table).metadata.snapshots) <= 6
    left = lake.metadata_files() - named_files(table)
    assert left
    for name in lake.metadata_files():
        os.utime(directory / name, (1, 1))
    lake.clock.time_ms += 1_000 * HOUR_MS
    store = FsObjectStore(str(lake.objects), inline_runtime())
    assert await tables.sweep_metadata(table, store.list, store.delete) == len(left)
    assert lake.metadata_files() == named_files(table)
    await store.close()


async def test_pyiceberg_agrees_on_what_is_needed(lake: Lake) -> None:
    tables = lake.tables(KEEP_FIVE)
    table = await appended(lake, tables, await tables.create(TOPIC), 30)
    theirs = SqlCatalog("towpath", uri=f"sqlite:///{lake.root}/catalog.sqlite")
    found = theirs.load_table(("towpath", TOPIC.name))
    referenced = Cleaner(Manifests()).referenced(found)
    assert {file.rpartition("/")[2] for file in referenced} == named_files(table)
    assert found.inspect.files().num_rows == 30
    assert found.inspect.history().num_rows == len(found.metadata.snapshots)
    theirs.close()
