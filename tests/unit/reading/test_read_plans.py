"""A plan holds every offset of its range exactly once, wherever the records lie by then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import combinations
from random import Random

import pytest
from tests.unit.lakehouse.helpers_pipeline import MemoryWorkerObjects, PipelineWorld, Seen

from towpath.log.object.entries import Entry, decode
from towpath.metadata.keys import streams
from towpath.reading.parts import FilePart, Gap, PartitionPlan, WalPart, plan_partition
from towpath.reading.rows import rows_of, wal_rows
from towpath.records import table
from towpath.topics.interface import Topic


@pytest.fixture
async def world() -> AsyncIterator[PipelineWorld]:
    made = PipelineWorld()
    await made.start()
    yield made
    await made.log.close()


async def entries(world: PipelineWorld, stream: int, offset: int = -1) -> list[Entry]:
    start = streams.index_prefix(stream)
    if offset >= 0:
        start = streams.first_entry_above(stream, offset)
    found = await world.store.scan(start, streams.index_end(stream), limit=100_000)
    return [decode(row) for row in found]


async def plan(world: PipelineWorld, topic: Topic, start: int, end: int) -> PartitionPlan:
    return plan_partition(0, await entries(world, topic.stream(0), start), start, end)


def read(world: PipelineWorld, found: PartitionPlan) -> list[Seen]:
    """Every row of the plan as a consumer sees it, in the order of offsets."""
    objects = MemoryWorkerObjects(world.objects)
    rows: list[Seen] = []
    for part in found.parts:
        for batch in rows_of(objects, 0, part):
            rows += [_seen(row) for row in batch.to_pylist()]
    return sorted(rows)


def _seen(row: dict[str, object]) -> Seen:
    timestamp_us = row["timestamp"].timestamp() * 1_000_000  # type: ignore[attr-defined]
    headers = tuple((pair["key"], pair["value"]) for pair in row["headers"])  # type: ignore[attr-defined]
    return (
        row["offset"], round(timestamp_us) // 1000, row["key"], row["value"], headers,
    )  # type: ignore[return-value]  # fmt: skip


async def test_wal_and_files_make_one_whole(world: PipelineWorld) -> None:
    topic = await world.create()
    stream = topic.stream(0)
    for step in range(6):
        await world.append(topic, records=step + 2)
        if step in (1, 3):
            await world.compact()
    everything = await world.read_all(stream)
    end = len(everything)
    whole = await plan(world, topic, 0, end)
    assert [type(part) for part in whole.parts] == [FilePart, FilePart, WalPart, WalPart]
    assert read(world, whole) == everything
    chance = Random(3)
    for _ in range(40):
        first, last = sorted(chance.choices(range(end + 1), k=2))
        assert read(world, await plan(world, topic, first, last)) == everything[first:last]


async def test_columns_come_as_asked(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    await world.append(topic)
    objects = MemoryWorkerObjects(world.objects)
    for part in (await plan(world, topic, 1, 5)).parts:
        for batch in rows_of(objects, 0, part, [table.VALUE, table.PARTITION]):
            assert batch.schema.names == [table.VALUE, table.PARTITION]
            assert batch.num_rows == 2


async def test_entries_that_were_replaced_meanwhile_are_read_once(world: PipelineWorld) -> None:
    """The first pages are old, the last ones new: the larger entry goes on from where they end."""
    topic = await world.create()
    stream = topic.stream(0)
    for _ in range(4):
        await world.append(topic)
    old = await entries(world, stream)
    everything = await world.read_all(stream)
    await world.compact()
    new = await entries(world, stream)
    assert (new[0].start, new[0].end) == (0, 12)
    mixed: Sequence[Entry] = [*old[:2], *new]
    found = plan_partition(0, mixed, 1, 12)
    assert [(part.start, part.end) for part in found.parts] == [(1, 3), (3, 6), (6, 12)]
    assert read(world, found) == everything[1:]


async def test_any_of_the_replaced_entries_may_be_deleted_already(world: PipelineWorld) -> None:
    """They go one after the other once the larger entry is there, and a plan may be made between
    any two of these steps."""
    topic = await world.create()
    stream = topic.stream(0)
    for _ in range(5):
        await world.append(topic)
    old = await entries(world, stream)
    everything = await world.read_all(stream)
    await world.compact()
    new = await entries(world, stream)
    for count in range(len(old)):
        for left in combinations(old[:-1], count):
            found = plan_partition(0, [*left, *new], 0, 15)
            assert read(world, found) == everything
            with pytest.raises(Gap):
                plan_partition(0, [*left, *new], 0, 16)


async def test_a_missing_entry_is_never_passed_over(world: PipelineWorld) -> None:
    topic = await world.create()
    for _ in range(3):
        await world.append(topic)
    found = await entries(world, topic.stream(0))
    for given, offset in ((found[1:], 0), ([found[0], found[2]], 3), (found[:2], 6), ([], 0)):
        with pytest.raises(Gap, match=f"offset {offset}"):
            plan_partition(0, given, 0, 9)
    assert plan_partition(0, [], 9, 9).parts == ()


async def test_records_that_were_removed_are_not_missed() -> None:
    world = PipelineWorld()
    await world.start()
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    (entry,) = await entries(world, topic.stream(0))
    assert len(entry.stretches) == 1
    found = plan_partition(0, [entry], 2, 3)
    assert [part.is_whole for part in found.files] == [False]
    assert [row[0] for row in read(world, found)] == [2]
    await world.log.close()


async def test_many_batches_come_in_groups(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.reading.rows.GROUP_BYTES", 1)
    topic = await world.create()
    for _ in range(5):
        await world.append(topic)
    found = await plan(world, topic, 4, 14)
    batches = list(wal_rows(MemoryWorkerObjects(world.objects), 0, found.tail))
    assert [batch.num_rows for batch in batches] == [2, 3, 3, 2]
