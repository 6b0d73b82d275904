"""What leaves the log leaves the table; what nobody needs is deleted, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld
from tests.unit.lakehouse.model_tables import ModelTables

from towpath.gc.retention import Retention
from towpath.lakehouse.deleted_tables import DeletedTables
from towpath.lakehouse.file_gc import FileCollector
from towpath.lakehouse.orphan_files import OrphanFiles
from towpath.lakehouse.publish import Publisher
from towpath.lakehouse.upkeep import TableUpkeep
from towpath.observe.metrics import Metrics


@pytest.fixture
async def world() -> AsyncIterator[PipelineWorld]:
    made = PipelineWorld()
    await made.start()
    yield made
    await made.log.close()


def upkeep(world: PipelineWorld) -> TableUpkeep:
    tables = ModelTables(world.catalog)
    publisher = Publisher(world.store, tables)
    return TableUpkeep(world.store, world.topics, tables, publisher, world.runtime, world.settings)


def file_collector(world: PipelineWorld) -> FileCollector:
    tables = ModelTables(world.catalog)
    return FileCollector(world.store, world.objects, tables, world.runtime, Metrics())


def orphans(world: PipelineWorld) -> OrphanFiles:
    return OrphanFiles(
        world.store,
        world.objects,
        world.topics,
        ModelTables(world.catalog),
        world.runtime,
        world.settings,
        Metrics(),
    )


async def retain(world: PipelineWorld) -> None:
    async def save_producers(stream: int, offset: int) -> None:
        pass

    await Retention(world.store, world.topics, save_producers, world.runtime).run_once()


async def parquet_paths(world: PipelineWorld) -> set[str]:
    return {info.path async for info in world.objects.list("") if info.path.endswith(".parquet")}


async def test_records_leave_log_and_table_together(world: PipelineWorld) -> None:
    topic = await world.create(partitions=2)
    for _ in range(3):
        await world.append(topic)
        await world.append(topic, 1)
        await world.compact()
    await world.log.delete_before(topic.stream(0), 7)
    assert (await upkeep(world).run_once()).removed == 0  # The index still names the files.
    await retain(world)
    assert (await upkeep(world).run_once()).removed == 2
    assert world.table_offsets("orders") == [6, 7, 8]  # Whole files only.
    assert world.table_offsets("orders", 1) == list(range(9))
    assert len(await world.read_all(topic.stream(0))) == 2
    assert world.catalog.tables["orders"].snapshots[-1].operation == "delete"
    # The files stay while a snapshot needs them.
    world.clock.ms += 10 * world.settings.file_gc_grace_ms
    assert (await file_collector(world).run_once()).removed == 0
    assert len(await parquet_paths(world)) == 6
    for _ in range(3):
        await world.append(topic, 1)
        await world.compact()
    await upkeep(world).run_once()
    assert (await file_collector(world).run_once()).removed == 2
    assert world.table_offsets("orders", 1) == list(range(18))


async def test_a_table_may_keep_what_the_log_does_not() -> None:
    world = PipelineWorld(retention_in_tables=False)
    await world.start()
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    await world.log.delete_before(topic.stream(0), 3)
    await retain(world)
    await upkeep(world).run_once()
    assert world.table_offsets("orders") == [0, 1, 2]
    world.clock.ms += 10 * world.settings.orphan_ttl_ms
    await orphans(world).run_once()
    assert world.table_offsets("orders") == [0, 1, 2]
    # What comes later is compacted as if nothing had happened.
    await world.append(topic)
    await world.compact()
    assert world.table_offsets("orders") == [0, 1, 2, 3, 4, 5]
    await world.log.close()


async def test_rewritten_files_go_after_their_grace(world: PipelineWorld) -> None:
    topic = await world.create()
    pipeline, _ = await world.compactor()
    for _ in range(world.settings.max_files_per_partition + 1):
        await world.append(topic)
        world.clock.ms += world.settings.wal_max_age_ms
        await pipeline.run_round()
    await pipeline.run_round()
    before = await parquet_paths(world)
    assert (await file_collector(world).run_once()).removed == 0
    for _ in range(4):
        await world.append(topic)
        await world.compact()
    await upkeep(world).run_once()
    world.clock.ms += 10 * world.settings.file_gc_grace_ms
    summary = await file_collector(world).run_once()
    assert summary.removed >= world.settings.max_files_per_partition
    named = set(world.catalog.tables["orders"].files)
    assert named <= await parquet_paths(world)
    assert not before <= await parquet_paths(world)
    await pipeline.close()


async def test_files_that_nothing_names_go_when_they_are_old(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    named = await parquet_paths(world)
    directory = next(iter(named)).rpartition("/")[0]
    await world.objects.put(f"{directory}/lost-attempt.parquet", [b"x"])
    await world.objects.put("c/compaction/v1/topic=gone/partition=0/date=x/a.parquet", [b"x"])
    assert (await orphans(world).run_once()).removed == 0
    world.clock.ms += world.settings.orphan_ttl_ms + 1
    await world.objects.put(f"{directory}/young.parquet", [b"x"])
    assert (await orphans(world).run_once()).removed == 2
    assert await parquet_paths(world) == {*named, f"{directory}/young.parquet"}
    assert len(await world.read_all(topic.stream(0))) == 3


async def test_a_deleted_topics_table_is_dropped_with_its_files(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    collector = DeletedTables(
        world.store, ModelTables(world.catalog), world.runtime, world.settings
    )
    assert (await collector.run_once()).removed == 0
    await world.topics.delete(topic)
    again = await world.create()
    await world.append(again)
    assert (await collector.run_once()).removed == 1
    assert world.catalog.tables == {}
    await world.compact()
    world.clock.ms += 10 * world.settings.file_gc_grace_ms
    await world.collect_wal()
    assert (await file_collector(world).run_once()).removed == 1
    assert (await collector.run_once()).removed == 0
    assert world.table_offsets("orders") == [0, 1, 2]
    assert len(await world.read_all(again.stream(0))) == 3


async def test_a_kept_tables_files_stay_when_its_topic_is_gone(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    await world.topics.delete(topic)
    await world.collect_wal()
    world.clock.ms += 10 * world.settings.orphan_ttl_ms
    await orphans(world).run_once()
    again = await world.create()
    await world.append(again, records=1)
    await world.compact()
    world.clock.ms += 10 * world.settings.orphan_ttl_ms
    await orphans(world).run_once()
    assert world.table_offsets(f"orders__{topic.number}") == [0, 1, 2]
    assert world.table_offsets("orders") == [0]
