"""Values become columns on their way through the pipeline; late declarations cover all history."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld, at_once

from towpath.lakehouse.plan import JobKind
from towpath.lakehouse.tables import CommitConflict, CommitUnknown
from towpath.metadata.keys import value_columns
from towpath.metadata.store import MetadataError
from towpath.records.batch import BatchInfo
from towpath.records.build import NewRecord, build_batch
from towpath.topics.interface import Topic
from towpath.typed.declaration import FORMAT, SCHEMA
from towpath.typed.ids import FIRST_ID
from towpath.typed.types import shown

INTEGERS = json.dumps({"properties": {"id": {"type": "integer"}, "amount": {"type": "integer"}}})
NUMBERS = json.dumps({"properties": {"id": {"type": "integer"}, "amount": {"type": "number"}}})
WITH_CITY = json.dumps(
    {
        "properties": {
            "id": {"type": "integer"},
            "amount": {"type": "number"},
            "city": {"type": "string"},
        }
    }
)


async def world_with(partitions: int = 1, **settings: Any) -> tuple[PipelineWorld, Topic]:
    world = PipelineWorld(**settings)
    await world.start()
    return world, await world.create(partitions=partitions)


async def append(world: PipelineWorld, topic: Topic, *values: Any, partition: int = 0) -> None:
    """One batch; what is not bytes or None becomes JSON."""
    raw = [
        value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values
    ]
    records = [NewRecord(value, b"k%d" % at, world.clock.ms) for at, value in enumerate(raw)]
    data = build_batch(records)
    info = BatchInfo(data, len(records), world.clock.ms, world.clock.ms, -1, -1, -1)
    await world.log.append(topic.stream(partition), info)


async def declare(world: PipelineWorld, schema: str | None, format_name: str = "json") -> None:
    change = {FORMAT: format_name if schema is not None else None, SCHEMA: schema}
    await world.topics.alter("orders", change, replace=False)


async def settle(world: PipelineWorld) -> list[list[str]]:
    """Rounds until there is nothing more to do; the kinds of jobs that each of them ran."""
    world.clock.ms += world.settings.wal_max_age_ms
    own, runner = await world.compactor()
    ran: list[list[str]] = []
    for _ in range(20):
        before = len(runner.jobs)
        summary = await own.run_round()
        assert summary.failures == []
        jobs = [job.kind.value for job in runner.jobs[before:]]
        if not jobs:
            await own.close()
            return ran
        ran.append(jobs)
    raise AssertionError("it does not come to an end")


def rows_of(world: PipelineWorld, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """What the table's files hold, by offset; None for a column that a file does not have."""
    rows: list[tuple[Any, ...]] = []
    for path in world.catalog.tables["orders"].files:
        size = at_once(world.objects.stat(path)).size_bytes
        found = pq.read_table(io.BytesIO(bytes(at_once(world.objects.read(path, 0, size)))))
        lists = [
            found[name].to_pylist() if name in found.column_names else [None] * found.num_rows
            for name in ("partition", "offset", *columns)
        ]
        rows += zip(*lists, strict=True)
    return [row[1:] if len({row[0] for row in rows}) == 1 else row for row in sorted(rows)]


def table_columns(world: PipelineWorld) -> dict[str, str]:
    """The typed columns of the model table by id and name."""
    table = world.catalog.tables["orders"]
    return {f"{column.id} {column.name}": shown(column.type) for column in table.columns.values()}


async def test_declared_first() -> None:
    world, topic = await world_with()
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 1, "amount": 5}, {"id": 2}, None, b"?", {"id": "x"})
    assert await settle(world) == [["compact"]]
    rows = rows_of(world, ["id", "amount", "value_error"])
    assert [row[:3] for row in rows] == [
        (0, 1, 5), (1, 2, None), (2, None, None), (3, None, None), (4, None, None),
    ]  # fmt: skip
    assert [row[3] is None for row in rows] == [True, True, True, False, False]
    assert rows[4][3] == 'id: "x" is not an integer'
    assert table_columns(world) == {
        f"{FIRST_ID} id": "long",
        f"{FIRST_ID + 1} amount": "long",
        f"{FIRST_ID + 2} value_error": "string",
    }


async def test_a_late_declaration_covers_history_and_consumers_see_no_change() -> None:
    world, topic = await world_with(partitions=2)
    for number in range(3):
        await append(world, topic, {"id": number}, b"broken", None, partition=number % 2)
        await settle(world)
    before = [await world.read_all(topic.stream(number)) for number in range(2)]
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 7})
    jobs = await settle(world)
    assert jobs[0].count("compact") == 1
    assert [kind for kinds in jobs for kind in kinds].count("rewrite") == 2
    rows = rows_of(world, ["id", "value_error"])
    assert [row[:3] for row in rows] == [
        (0, 0, 0), (0, 1, None), (0, 2, None), (0, 3, 2), (0, 4, None), (0, 5, None), (0, 6, 7),
        (1, 0, 1), (1, 1, None), (1, 2, None),
    ]  # fmt: skip
    assert [row[1] for row in rows if row[3] is not None] == [1, 4, 1]
    after = [await world.read_all(topic.stream(number)) for number in range(2)]
    assert after[0][: len(before[0])] == before[0]
    assert after[1] == before[1]
    operations = [one.operation for one in world.catalog.tables["orders"].snapshots]
    assert "overwrite" not in operations
    assert await settle(world) == []


async def test_a_mended_schema_replays_what_did_not_fit() -> None:
    world, topic = await world_with()
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 1, "amount": 5}, {"id": 2, "amount": 2.5})
    await settle(world)
    assert rows_of(world, ["amount", "value_error"]) == [
        (0, 5, None),
        (1, None, "amount: 2.5 is not an integer"),
    ]
    await declare(world, NUMBERS)
    assert await settle(world) == [["rewrite"]]
    assert rows_of(world, ["amount", "value_error"]) == [(0, 5.0, None), (1, 2.5, None)]
    # Another type is another column; the other one keeps its id.
    assert table_columns(world) == {
        f"{FIRST_ID} id": "long",
        f"{FIRST_ID + 1} amount": "long",
        f"{FIRST_ID + 2} value_error": "string",
        f"{FIRST_ID + 3} amount": "double",
    }
    assert (await world.entries(topic.stream(0)))[0].parquet[0].value_stamp


async def test_evolution_adds_columns_and_going_back_rewrites_what_is_needed() -> None:
    world, topic = await world_with()
    await declare(world, NUMBERS)
    await append(world, topic, {"id": 1, "city": "Ghent"})
    await settle(world)
    await declare(world, WITH_CITY)
    await append(world, topic, {"id": 2, "city": "Bruges"})
    assert [sorted(jobs) for jobs in await settle(world)] == [["compact"], ["rewrite"]]
    assert rows_of(world, ["id", "city"]) == [(0, 1, "Ghent"), (1, 2, "Bruges")]
    await declare(world, None)
    await append(world, topic, {"id": 3})
    assert await settle(world) == [["compact"]]
    assert rows_of(world, ["id", "city"]) == [(0, 1, "Ghent"), (1, 2, "Bruges"), (2, None, None)]
    await declare(world, WITH_CITY)
    assert await settle(world) == [["rewrite"]]
    assert rows_of(world, ["id", "city"])[-1] == (2, 3, None)


async def test_inferred_columns_are_agreed_upon_by_all_jobs() -> None:
    world, topic = await world_with(partitions=3)
    await declare(world, "infer")
    await append(world, topic, {"a": 1}, {"a": 2, "b": {"c": [True]}}, partition=0)
    await append(world, topic, {"a": "text"}, {"z": 1.5}, partition=1)
    await append(world, topic, {"z": 1}, partition=2)
    pipeline, runner = await world.compactor()
    world.clock.ms += world.settings.wal_max_age_ms
    summary = await pipeline.run_round()
    assert summary.failures == []
    # Everybody has run once in vain; then all fields had columns.
    assert len(runner.jobs) == 6
    rows = rows_of(world, ["a", "b", "z", "value_error"])
    assert rows == [
        (0, 0, 1, None, None, None),
        (0, 1, 2, {"c": [True]}, None, None),
        (1, 0, None, None, None, 'a: "text" is not an integer'),
        (1, 1, None, None, 1.5, None),
        (2, 0, None, None, 1.0, None),
    ]
    # Another process begins with what is known: no job runs twice, and no file is behind.
    await append(world, topic, {"a": 3, "z": 2}, partition=2)
    assert await settle(world) == [["compact"]]
    found = await world.store.get(value_columns.value_columns(topic.number))
    assert found is not None
    inferred = value_columns.decode(found.value).inferred
    assert [field.name for field in inferred] == ["a", "b", "z"]


async def test_a_new_field_rewrites_nothing() -> None:
    world, topic = await world_with()
    await declare(world, "infer")
    await append(world, topic, {"a": 1})
    await settle(world)
    await append(world, topic, {"a": 2, "b": "new"})
    # The job runs twice: once to find the field.
    assert await settle(world) == [["compact", "compact"]]
    assert rows_of(world, ["a", "b"]) == [(0, 1, None), (1, 2, "new")]


async def test_compacted_topics_and_merged_files_keep_their_columns() -> None:
    world, topic = await world_with(max_files_per_partition=2)
    await declare(world, INTEGERS)
    await world.topics.alter("orders", {"cleanup.policy": "compact"}, replace=False)
    for number in range(3):
        await append(world, topic, {"id": number}, {"id": "bad"})
        world.clock.ms += world.settings.clean_interval_ms
        await settle(world)
    assert rows_of(world, ["id", "value_error"]) == [
        (4, 2, None),
        (5, None, 'id: "bad" is not an integer'),
    ]


async def test_backfill_is_bounded_per_round() -> None:
    world, topic = await world_with(partitions=3, round_max_tasks=1)
    for partition in range(3):
        await append(world, topic, {"id": partition}, partition=partition)
    await settle(world)
    await declare(world, INTEGERS)
    assert await settle(world) == [["rewrite"]] * 3


async def test_backfill_takes_a_job_s_worth_of_files() -> None:
    world, topic = await world_with(job_max_bytes=1, max_files_per_partition=100)
    for number in range(3):
        await append(world, topic, {"id": number})
        await settle(world)
    await declare(world, INTEGERS)
    assert await settle(world) == [["rewrite"]] * 3
    assert [row[1] for row in rows_of(world, ["id"])] == [0, 1, 2]


async def test_a_dropped_table_gets_its_columns_back_under_their_ids() -> None:
    world, topic = await world_with()
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 1})
    await settle(world)
    columns = table_columns(world)
    del world.catalog.tables["orders"]
    await append(world, topic, {"id": 2})
    await settle(world)
    assert table_columns(world) == columns
    assert [row[1] for row in rows_of(world, ["id"])] == [1, 2]


@pytest.mark.parametrize("error", [CommitConflict("others"), CommitUnknown("lost")])
async def test_a_conflict_while_the_schema_evolves(error: Exception) -> None:
    world, topic = await world_with()
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 1})
    left = [error, error]

    def strike(step: str) -> None:
        if step == "evolve" and left:
            raise left.pop()

    pipeline, _ = await world.compactor(strike)
    world.clock.ms += world.settings.wal_max_age_ms
    assert (await pipeline.run_round()).failures == []
    assert rows_of(world, ["id"]) == [(0, 1)]


class Crash(Exception):
    """The process is gone."""


CHECKPOINTS = (
    "created", "before-parquet-written", "parquet-written", "iceberg-applied",
    "iceberg-committed", "index-put", "index-swapped", "wal-gc-ready", "done",
)  # fmt: skip


@pytest.mark.parametrize("point", CHECKPOINTS)
async def test_a_backfill_survives_a_crash_at_every_state(point: str) -> None:
    world, topic = await world_with()
    await append(world, topic, {"id": 1, "amount": 2}, b"?")
    await settle(world)
    before = await world.read_all(topic.stream(0))
    await declare(world, INTEGERS)

    def checkpoint(step: str) -> None:
        if step == f"compaction-{point}":
            raise Crash

    pipeline, _ = await world.compactor(checkpoint=checkpoint)
    with pytest.raises(Crash):
        await pipeline.run_round()
    world.clock.ms += world.settings.lock_ttl_ms
    await settle(world)
    assert [row[:2] for row in rows_of(world, ["id"])] == [(0, 1), (1, None)]
    assert world.table_offsets("orders") == [0, 1]
    assert await world.read_all(topic.stream(0)) == before


async def test_columns_that_cannot_be_remembered_wait_for_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, topic = await world_with()
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 1})
    pipeline, runner = await world.compactor()
    world.clock.ms += world.settings.wal_max_age_ms

    async def fail(*args: Any) -> Any:
        raise MetadataError("the store is away")

    monkeypatch.setattr(pipeline._columns, "prepare", fail)
    with pytest.raises(MetadataError):
        await pipeline.run_round()
    assert runner.jobs == []
    await pipeline.close()
    assert await settle(world) == [["compact"]]
    assert rows_of(world, ["id"]) == [(0, 1)]


async def test_a_record_of_columns_that_cannot_be_read_stops_its_topic_only() -> None:
    world, topic = await world_with()
    other = await world.create("other")
    await declare(world, INTEGERS)
    await world.store.put(value_columns.value_columns(topic.number), b'{"version": 99}')
    await append(world, topic, {"id": 1})
    await append(world, other, {"id": 1})
    summary = await world.compact()
    assert summary.failures == [
        "orders: orders: value columns value has version 99, this release knows 1"
    ]
    assert world.table_offsets("other") == [0]
    assert world.table_offsets("orders") == []


async def test_the_columns_of_a_deleted_topic_go_with_it() -> None:
    world, topic = await world_with()
    await declare(world, INTEGERS)
    await append(world, topic, {"id": 1})
    await settle(world)
    key = value_columns.value_columns(topic.number)
    assert await world.store.get(key) is not None
    await world.topics.delete(topic)
    await world.collect_wal()
    assert await world.store.get(key) is None


def test_kinds_of_jobs_are_as_these_tests_call_them() -> None:
    assert {kind.value for kind in JobKind} == {"compact", "rewrite", "key-compact"}
