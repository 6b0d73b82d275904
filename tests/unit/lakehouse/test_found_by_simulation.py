"""What seeds of the simulation found, each in a small world of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld, at_once
from tests.unit.lakehouse.model_tables import ModelTables

from towpath.cluster.leases import Leases
from towpath.gc.retention import Retention
from towpath.lakehouse.file_gc import FileCollector
from towpath.lakehouse.publish import Publisher
from towpath.lakehouse.tables import Maintained, Table
from towpath.lakehouse.tasks import TaskStore
from towpath.lakehouse.upkeep import TableUpkeep
from towpath.metadata.keys import compaction, streams
from towpath.metadata.keys.compaction import TaskRecord, TaskState
from towpath.metadata.memory import MemoryStore
from towpath.metadata.proto.index_pb2 import IndexEntry
from towpath.metadata.store import OutcomeUnknown, StoreUnavailable, prefix_end
from towpath.observe.metrics import Metrics


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class SlowHistory(ModelTables):
    """Tables whose snapshots are not old enough to go when they are first looked at."""

    looks = 0

    async def maintain(self, table: Table) -> Maintained:
        self.looks += 1
        return Maintained(table) if self.looks == 1 else await super().maintain(table)


@pytest.fixture
async def world() -> AsyncIterator[PipelineWorld]:
    made = PipelineWorld()
    await made.start()
    yield made
    await made.log.close()


def upkeep(world: PipelineWorld, tables: ModelTables | None = None) -> TableUpkeep:
    tables = tables or ModelTables(world.catalog)
    publisher = Publisher(world.store, tables)
    return TableUpkeep(world.store, world.topics, tables, publisher, world.runtime, world.settings)


async def retain(world: PipelineWorld) -> None:
    async def save_producers(stream: int, offset: int) -> None:
        return

    await Retention(world.store, world.topics, save_producers, world.runtime).run_once()


async def orders(world: PipelineWorld) -> list[str]:
    prefix = compaction.FILES_GC_PREFIX
    return [row.key for row in await world.store.scan(prefix, prefix_end(prefix))]


async def test_a_task_that_was_done_and_not_removed_goes(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream was stuck for ever."""
    topic = await world.create()
    await world.append(topic)
    world.clock.ms += world.settings.wal_max_age_ms
    victim, _ = await world.compactor()

    async def die(self: object, task: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(TaskStore, "_remove", die)
        with pytest.raises(Killed):
            await victim.run_round()
    prefix = compaction.tasks_prefix(topic.stream(0))
    (left,) = await world.store.scan(prefix, prefix_end(prefix))
    assert TaskRecord.decode(left.value).state is TaskState.DONE
    await victim.close()
    await world.append(topic)
    world.clock.ms += world.settings.wal_max_age_ms
    heir, _ = await world.compactor()
    for _ in range(2):
        assert (await heir.run_round()).failures == []
    for left_prefix in (prefix, compaction.ACTIVE_PREFIX):
        assert await world.store.scan(left_prefix, prefix_end(left_prefix)) == []
    assert await world.file_types(topic.stream(0)) == ["parquet", "parquet"]
    await heir.close()


async def test_snapshots_of_a_table_that_nobody_changes_expire(world: PipelineWorld) -> None:
    """A table was only looked at again after its next commit."""
    topic = await world.create()
    for _ in range(6):
        await world.append(topic)
        await world.compact()
    tended = upkeep(world, SlowHistory(world.catalog, keep_snapshots=1))
    await tended.run_once()
    assert len(world.catalog.tables["orders"].snapshots) == 6
    await tended.run_once()
    assert len(world.catalog.tables["orders"].snapshots) == 1


async def test_a_range_that_is_removed_before_its_commit_leaves_the_table(
    world: PipelineWorld,
) -> None:
    """Files were only looked for when the log start had moved since."""
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    await world.append(topic)
    tended = upkeep(world)

    def remove(step: str) -> None:
        if step == "commit" and len(world.catalog.tables["orders"].snapshots) == 1:
            at_once(world.log.delete_before(topic.stream(0), 6))
            at_once(retain(world))
            at_once(tended.run_once())

    pipeline, _ = await world.compactor(remove)
    world.clock.ms += world.settings.wal_max_age_ms
    for _ in range(2):
        assert (await pipeline.run_round()).failures == []
    assert world.table_offsets("orders") == [3, 4, 5]
    await tended.run_once()
    assert world.table_offsets("orders") == []
    await pipeline.close()


async def test_a_file_stays_in_the_table_while_a_task_may_bring_it_into_the_index(
    world: PipelineWorld,
) -> None:
    """It was taken out and ordered to be deleted, and then the index named it."""
    topic = await world.create()
    await world.append(topic)
    await world.append(topic)

    def expire(step: str) -> None:
        if step == "compaction-iceberg-committed":
            at_once(world.log.delete_before(topic.stream(0), 6))
            at_once(upkeep(world).run_once())

    pipeline, _ = await world.compactor(checkpoint=expire)
    world.clock.ms += world.settings.wal_max_age_ms
    assert (await pipeline.run_round()).failures == []
    assert await world.file_types(topic.stream(0)) == ["parquet"]
    assert world.table_offsets("orders") == [0, 1, 2, 3, 4, 5]
    assert await orders(world) == []
    await retain(world)
    await upkeep(world).run_once()
    assert world.table_offsets("orders") == []
    assert len(await orders(world)) == 1
    await pipeline.close()


async def test_files_that_left_a_table_which_was_dropped_since_go(world: PipelineWorld) -> None:
    """They waited for the new table to make as many snapshots as the old one had."""
    topic = await world.create()
    for _ in range(3):
        await world.append(topic)
        await world.compact()
    await world.log.delete_before(topic.stream(0), 3)
    await retain(world)
    await upkeep(world).run_once()
    (order,) = await orders(world)
    del world.catalog.tables["orders"]
    await world.append(topic)
    await world.compact()
    assert world.table_offsets("orders") == list(range(3, 12))
    world.clock.ms += 10 * world.settings.file_gc_grace_ms
    tables = ModelTables(world.catalog)
    collector = FileCollector(world.store, world.objects, tables, world.runtime, Metrics())
    assert (await collector.run_once()).removed == 1
    assert order not in await orders(world)
    assert world.table_offsets("orders") == list(range(3, 12))


async def test_a_file_of_a_task_stays_though_its_records_were_removed() -> None:
    """Its entry was gone, so it left the table; then the swap of both entries named it."""
    world = PipelineWorld(target_file_bytes=1, row_group_bytes=1)
    await world.start()
    topic = await world.create()
    await world.append(topic)
    await world.append(topic)

    def expire(step: str) -> None:
        if step == "compaction-iceberg-committed":
            at_once(world.log.delete_before(topic.stream(0), 3))
            at_once(retain(world))
            at_once(upkeep(world).run_once())

    pipeline, _ = await world.compactor(checkpoint=expire)
    world.clock.ms += world.settings.wal_max_age_ms
    assert (await pipeline.run_round()).failures == []
    (entry,) = await world.entries(topic.stream(0))
    assert len(entry.parquet) > 1
    assert {file.path for file in entry.parquet} == set(world.catalog.tables["orders"].files)
    assert await orders(world) == []
    await pipeline.close()
    await world.log.close()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_table_lock_that_cannot_be_given_back_changes_nothing(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """The failure took the place of the commit, or of the cancellation: the service went on."""
    topic = await world.create()
    await world.append(topic)
    world.clock.ms += world.settings.wal_max_age_ms

    def stop(step: str) -> None:
        if cancelled and step == "compaction-iceberg-applied":
            raise asyncio.CancelledError

    async def release(self: object, key: str) -> None:
        raise StoreUnavailable("no route to the metadata store")

    pipeline, _ = await world.compactor(checkpoint=stop)
    monkeypatch.setattr(Leases, "release", release)
    if cancelled:
        with pytest.raises(asyncio.CancelledError):
            await pipeline.run_round()
    else:
        assert (await pipeline.run_round()).tasks == 1
    await pipeline.close()


async def test_a_swap_whose_answer_was_lost_removes_nothing_before_it_is_there(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key still named the old file: it was taken for another task's, and the task went on to
    delete the entries before it."""
    topic = await world.create()
    stream = topic.stream(0)
    for _ in range(world.settings.max_files_per_partition):
        await world.append(topic)
        await world.compact()
    before = await world.read_all(stream)
    pipeline, _ = await world.compactor()
    put = MemoryStore.put
    lost: list[str] = []

    async def lose(self: MemoryStore, key: str, value: bytes, **more: Any) -> Any:
        if streams.is_index_entry(key) and not lost:
            lost.append(key)
            raise OutcomeUnknown("it never arrived")
        return await put(self, key, value, **more)

    monkeypatch.setattr(MemoryStore, "put", lose)
    pipeline.look_for_small_files(stream)
    with pytest.raises(OutcomeUnknown):
        await pipeline.run_round()
    assert lost
    assert await world.file_types(stream) == ["parquet"] * world.settings.max_files_per_partition
    assert await world.read_all(stream) == before
    await pipeline.run_round()
    assert await world.file_types(stream) == ["parquet"]
    assert await world.read_all(stream) == before
    await pipeline.close()


async def test_a_task_in_whose_place_the_index_has_other_files_removes_nothing(
    world: PipelineWorld,
) -> None:
    topic = await world.create()
    stream = topic.stream(0)
    for _ in range(world.settings.max_files_per_partition):
        await world.append(topic)
        await world.compact()

    def replace_last(step: str) -> None:
        if step == "compaction-iceberg-committed":
            rows = at_once(
                world.store.scan(streams.index_prefix(stream), streams.index_end(stream))
            )
            other = IndexEntry.FromString(rows[-1].value)
            other.created_at_ms += 1
            at_once(world.store.put(rows[-1].key, other.SerializeToString()))

    pipeline, _ = await world.compactor(checkpoint=replace_last)
    pipeline.look_for_small_files(stream)
    await pipeline.run_round()
    assert await world.file_types(stream) == ["parquet"] * world.settings.max_files_per_partition
    assert await orders(world) == []
    prefix = compaction.tasks_prefix(stream)
    assert await world.store.scan(prefix, prefix_end(prefix)) == []
    await pipeline.close()
