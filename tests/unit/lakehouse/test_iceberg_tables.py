"""Tables are made, appended to, rewritten and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.lakehouse.helpers_iceberg import (
    CLUSTER,
    DAY_MS,
    PREFIX,
    START_MS,
    TOPIC,
    Lake,
    append,
    handle,
    offsets_by_duckdb,
    offsets_by_pyiceberg,
    operations,
)

from towpath.lakehouse.tables import Change, CommitConflict, Mark, TableError, TableMissing
from towpath.records.table import DEFAULT_FIELD_IDS, arrow_schema


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path)


async def test_a_new_table_says_whose_it_is(lake: Lake) -> None:
    tables = lake.tables()
    assert await tables.load(TOPIC) is None
    table = await tables.create(TOPIC)
    metadata = handle(table).metadata
    assert table.identifier == f"towpath.{TOPIC.name}"
    assert table.field_ids == DEFAULT_FIELD_IDS
    assert (table.snapshot_id, table.sequence_number, table.oldest_sequence_number) == (None, 0, 0)
    assert not table.split_by_day
    assert metadata.format_version == 2
    assert metadata.location == f"file://{lake.objects}/{PREFIX}/iceberg/topic={TOPIC.name}"
    assert metadata.properties.items() >= {
        ("dray.topic", TOPIC.name),
        ("dray.cluster_id", CLUSTER),
        ("dray.schema_version", "1"),
        ("dray.topic_id", TOPIC.topic_id),
        ("dray.topic_number", "7"),
        ("commit.retry.num-retries", "0"),
        ("gc.enabled", "false"),
    }
    assert str(metadata.schema().find_type("timestamp")) == "timestamptz"
    assert handle(table).schema().as_arrow().names == arrow_schema().names
    assert await tables.create(TOPIC) == await tables.load(TOPIC) == table


async def test_appended_rows_are_read_by_others(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    first = lake.write(table.field_ids, 0, range(10))
    second = lake.write(table.field_ids, 3, range(5))
    table = await tables.commit(table, append(table, (0, first), (3, second)))
    table = await tables.commit(
        table, append(table, (0, lake.write(table.field_ids, 0, range(10, 12))), task="task-2")
    )
    expected = [(0, offset) for offset in range(12)] + [(3, offset) for offset in range(5)]
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == expected
    assert operations(table) == ["append", "append"]
    assert table.marks == {0: Mark(12, "task-2"), 3: Mark(5, "task-1")}
    assert table == await lake.tables().load(TOPIC)
    files = await tables.files(table)
    assert {(0, first.path), (3, second.path)} < set(files)
    assert len(files) == 3


async def test_a_snapshot_tells_its_offsets_and_tasks(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    for number in range(2):
        file = lake.write(table.field_ids, number, range(4))
        table = await tables.commit(table, append(table, (number, file), task=f"task-{number}"))
    first, last = [snapshot.summary for snapshot in handle(table).metadata.snapshots]
    assert first is not None
    assert last is not None
    assert json.loads(str(first["dray.offsets"])) == {"0": 4}
    assert json.loads(str(last["dray.offsets"])) == {"0": 4, "1": 4}
    assert [first["dray.tasks"], last["dray.tasks"]] == ["task-0", "task-1"]
    assert [last["total-records"], last["total-data-files"], last["added-records"]] == [
        "8",
        "2",
        "4",
    ]


async def test_values_arrive_as_they_were_written(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    table = await tables.commit(
        table, append(table, (0, lake.write(table.field_ids, 0, range(2), timestamp_ms=-1)))
    )
    rows = handle(table).scan().to_arrow().sort_by("offset").to_pylist()
    assert [row["key"] for row in rows] == [None, b"k1"]
    assert [row["value"] for row in rows] == [b"v0", b"v1"]
    assert rows[0]["headers"] == [{"key": "h", "value": None}, {"key": "h", "value": b"x"}]
    assert [row["timestamp"].timestamp() for row in rows] == [-0.001, 0]


async def test_readers_skip_files_by_what_the_manifest_tells(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    for partition in (0, 1):
        for start in (0, 10):
            file = lake.write(
                table.field_ids, partition, range(start, start + 10), timestamp_ms=START_MS + start
            )
            table = await tables.commit(table, append(table, (partition, file)))
    scan = handle(table).scan

    def planned(condition: str) -> int:
        return len(list(scan(row_filter=condition).plan_files()))

    assert planned("partition == 1") == 2
    assert planned("offset >= 10") == 2
    assert planned("partition == 0 and offset < 10") == 1
    assert planned("timestamp < '2026-09-21T14:13:20.010+00:00'") == 2
    assert planned("key is null") == 4
    assert planned("value is null") == 0
    assert planned("producer_id is not null") == 0


async def test_file_sizes_and_counts_are_exact(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    file = lake.write(table.field_ids, 0, range(10))
    table = await tables.commit(table, append(table, (0, file)))
    (described,) = [task.file for task in handle(table).scan().plan_files()]
    ids = table.field_ids
    assert described.file_size_in_bytes == (lake.objects / file.path).stat().st_size
    assert described.record_count == 10
    assert described.split_offsets == [4]
    assert described.null_value_counts[ids["key"]] == 5
    assert described.value_counts[ids["key"]] == 10
    assert described.column_sizes.keys() == {ids[name] for name in file.columns}
    assert ids["headers.element.key"] not in described.value_counts


async def test_a_change_without_files_is_fenced_too(lake: Lake) -> None:
    tables = lake.tables()
    loaded = await tables.create(TOPIC)
    table = await tables.commit(loaded, Change({0: Mark(5, "task-1")}))
    assert table.snapshot_id is not None
    assert operations(table) == ["append"]
    with pytest.raises(CommitConflict):
        await tables.commit(loaded, Change({0: Mark(6, "task-2")}))
    assert (await lake.tables().load(TOPIC)) == table
    assert offsets_by_pyiceberg(table) == []


async def test_a_rewrite_keeps_the_rows_and_is_called_replace(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    small = [(0, lake.write(table.field_ids, 0, range(at, at + 2))) for at in range(0, 20, 2)]
    for partition, file in small:
        table = await tables.commit(table, append(table, (partition, file)))
    other = lake.write(table.field_ids, 1, range(3))
    table = await tables.commit(table, append(table, (1, other)))
    large = lake.write(table.field_ids, 0, range(20))
    mark = Mark(20, table.mark(0).task_id, "rewrite-1")
    before = offsets_by_pyiceberg(table)
    table = await tables.commit(table, Change({0: mark}, [(0, large)], small, changes_rows=False))
    assert operations(table)[-1] == "replace"
    assert offsets_by_pyiceberg(table) == offsets_by_duckdb(table) == before
    assert sorted(await tables.files(table)) == [(0, large.path), (1, other.path)]
    assert table.mark(0) == mark
    summary = handle(table).metadata.snapshots[-1].summary
    assert summary is not None
    assert [summary[name] for name in ("added-data-files", "deleted-data-files")] == ["1", "10"]
    assert [summary[name] for name in ("total-data-files", "total-records")] == ["2", "23"]
    assert summary["dray.tasks"] == "rewrite-1"


async def test_rows_that_change_make_an_overwrite_or_a_delete(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    old = lake.write(table.field_ids, 0, range(10))
    table = await tables.commit(table, append(table, (0, old)))
    newer = lake.write(table.field_ids, 0, [1, 9])
    table = await tables.commit(
        table, Change({0: Mark(10, "task-1", "keys-1")}, [(0, newer)], [(0, old)])
    )
    assert offsets_by_pyiceberg(table) == [(0, 1), (0, 9)]
    table = await tables.commit(table, Change({}, removed=[(0, newer)]))
    assert offsets_by_pyiceberg(table) == []
    assert operations(table) == ["append", "overwrite", "delete"]
    assert table.mark(0).end == 10


async def test_a_removed_file_must_be_in_the_table(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    old = lake.write(table.field_ids, 0, range(10))
    table = await tables.commit(table, append(table, (0, old)))
    newer = lake.write(table.field_ids, 0, range(10))
    replacing = Change({0: Mark(10, "task-1", "r1")}, [(0, newer)], [(0, old)], changes_rows=False)
    table = await tables.commit(table, replacing)
    files = lake.metadata_files()
    with pytest.raises(CommitConflict, match="not in the table"):
        await tables.commit(table, replacing)
    assert lake.metadata_files() == files
    assert (await tables.load(TOPIC)) == table


async def test_marks_never_go_back(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    table = await tables.commit(table, Change({0: Mark(5, "task-1")}))
    with pytest.raises(ValueError, match="cannot go back"):
        await tables.commit(table, Change({0: Mark(4, "task-2")}))


async def test_files_below_the_log_start_are_found(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    files = [lake.write(table.field_ids, 0, range(at, at + 10)) for at in (0, 10, 20)]
    other = lake.write(table.field_ids, 1, range(10))
    table = await tables.commit(table, append(table, *((0, file) for file in files), (1, other)))
    below = await tables.files_below(table, {0: 20})
    assert sorted((at, file.path, file.last_offset) for at, file in below) == [
        (0, files[0].path, 9),
        (0, files[1].path, 19),
    ]
    assert below[0][1].size_bytes in {file.size_bytes for file in files}
    assert await tables.files_below(table, {0: 19, 2: 100}) == [
        (at, file) for at, file in below if file.last_offset == 9
    ]
    table = await tables.commit(table, Change({}, removed=below))
    assert sorted(await tables.files(table)) == [(0, files[2].path), (1, other.path)]


async def test_tables_may_be_split_by_day(lake: Lake) -> None:
    tables = lake.tables(partitioning=("partition", "day(timestamp)"))
    table = await tables.create(TOPIC)
    assert table.split_by_day
    today = START_MS // DAY_MS
    files = [
        (
            0,
            lake.write(table.field_ids, 0, range(4), timestamp_ms=START_MS - DAY_MS, day=today - 1),
        ),
        (0, lake.write(table.field_ids, 0, range(4, 8), timestamp_ms=START_MS, day=today)),
        (0, lake.write(table.field_ids, 0, range(8, 9), timestamp_ms=START_MS)),
    ]
    table = await tables.commit(table, append(table, *files))
    assert offsets_by_pyiceberg(table) == [(0, offset) for offset in range(9)]
    scan = handle(table).scan(row_filter="timestamp < '2026-09-21T00:00:00+00:00'")
    assert len(list(scan.plan_files())) == 1
    two_days = lake.write(table.field_ids, 0, range(9, 11), timestamp_ms=(today + 1) * DAY_MS - 1)
    with pytest.raises(TableError, match="several days"):
        await tables.commit(table, append(table, (0, two_days)))
    assert {file.day for _, file in await tables.files_below(table, {0: 9})} == {today - 1, today}
    assert (await lake.tables().load(TOPIC)) == table


def test_only_known_partitionings_are_accepted(lake: Lake) -> None:
    with pytest.raises(ValueError, match="partitioned by"):
        lake.tables(partitioning=("offset",))


async def test_a_dropped_table_is_missing(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    assert await lake.tables().drop(TOPIC) == []
    with pytest.raises(TableMissing):
        await tables.commit(table, Change({0: Mark(1, "t")}))
    again = await tables.create(TOPIC)
    with pytest.raises(TableMissing):
        await tables.commit(table, Change({0: Mark(1, "t")}))
    assert (await tables.commit(again, Change({0: Mark(1, "t")}))).mark(0).end == 1


async def test_field_ids_are_the_catalogs(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    with handle(table).update_schema() as change:
        change.rename_column("attributes", "flags")
    with pytest.raises(TableError, match="no column 'attributes'"):
        await tables.load(TOPIC)


async def test_a_clock_that_is_behind_does_not_matter(lake: Lake) -> None:
    tables = lake.tables()
    table = await tables.create(TOPIC)
    table = await tables.commit(table, Change({0: Mark(1, "task-1")}))
    lake.clock.time_ms = 0
    table = await tables.commit(table, Change({0: Mark(2, "task-2")}))
    first, second = handle(table).metadata.snapshots
    assert second.timestamp_ms >= first.timestamp_ms
