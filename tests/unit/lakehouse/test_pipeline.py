"""Rounds of the pipeline on stores in memory, with a model of the catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld

from towpath.lakehouse.runners.runner import RunnerUnavailable
from towpath.lakehouse.tables import CatalogUnavailable, CommitUnknown
from towpath.metadata.keys import compaction
from towpath.metadata.store import prefix_end


@pytest.fixture
async def world() -> AsyncIterator[PipelineWorld]:
    made = PipelineWorld()
    await made.start()
    yield made
    await made.log.close()


async def test_a_round_moves_records_from_wal_to_table(world: PipelineWorld) -> None:
    topic = await world.create()
    stream = topic.stream(0)
    for _ in range(5):
        await world.append(topic)
    before = await world.read_all(stream)
    summary = await world.compact()
    assert summary.failures == []
    assert summary.of("orders").records == 15
    assert await world.file_types(stream) == ["parquet"]
    assert await world.read_all(stream) == before
    assert world.table_offsets("orders") == list(range(15))
    await world.append(topic)
    later = await world.read_all(stream)
    assert later[:15] == before
    assert len(later) == 18
    await world.compact()
    assert await world.read_all(stream) == later
    assert await world.file_types(stream) == ["parquet", "parquet"]
    assert world.table_offsets("orders") == list(range(18))


async def test_nothing_is_left_behind(world: PipelineWorld) -> None:
    topic = await world.create(partitions=3)
    for partition in (0, 1, 2, 0):
        await world.append(topic, partition)
    before = [await world.read_all(topic.stream(partition)) for partition in range(3)]
    await world.compact()
    await world.collect_wal()
    assert await world.wal_paths() == []
    assert [await world.read_all(topic.stream(at)) for at in range(3)] == before
    for prefix in (compaction.ACTIVE_PREFIX, compaction.LOCKS_PREFIX):
        assert await world.store.scan(prefix, prefix_end(prefix)) == []
    prefix = compaction.tasks_prefix(topic.stream(0))
    assert await world.store.scan(prefix, prefix_end(prefix)) == []


async def test_young_records_wait(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    pipeline, _ = await world.compactor()
    assert (await pipeline.run_round()).tasks == 0
    world.clock.ms += world.settings.wal_max_age_ms
    assert (await pipeline.run_round()).tasks == 1
    assert (await pipeline.run_round()).tasks == 0
    await pipeline.close()


async def test_many_bytes_do_not_wait() -> None:
    world = PipelineWorld(wal_max_bytes=1)
    await world.start()
    topic = await world.create()
    await world.append(topic)
    pipeline, _ = await world.compactor()
    assert (await pipeline.run_round()).tasks == 1
    await pipeline.close()


async def test_a_long_backlog_takes_several_tasks() -> None:
    world = PipelineWorld(job_max_entries=3)
    await world.start()
    topic = await world.create()
    for _ in range(8):
        await world.append(topic)
    before = await world.read_all(topic.stream(0))
    world.clock.ms += world.settings.wal_max_age_ms
    pipeline, runner = await world.compactor()
    assert [(await pipeline.run_round()).more for _ in range(3)] == [True, True, False]
    assert [(job.start, job.end) for job in runner.jobs] == [(0, 9), (9, 18), (18, 24)]
    assert await world.read_all(topic.stream(0)) == before
    assert world.table_offsets("orders") == list(range(24))
    await pipeline.close()


async def test_small_files_are_rewritten(world: PipelineWorld) -> None:
    topic = await world.create()
    stream = topic.stream(0)
    pipeline, _ = await world.compactor()
    for _ in range(9):
        await world.append(topic)
        world.clock.ms += world.settings.wal_max_age_ms
        await pipeline.run_round()
    before = await world.read_all(stream)
    assert await pipeline.run_round() is not None
    table = world.catalog.tables["orders"]
    assert "replace" in [snapshot.operation for snapshot in table.snapshots]
    assert len(await world.entries(stream)) < 6
    assert await world.read_all(stream) == before
    assert world.table_offsets("orders") == list(range(27))
    await pipeline.close()


async def test_idempotent_producers_survive(world: PipelineWorld) -> None:
    topic = await world.create()
    first = await world.append(topic, producer=(7, 0, 0))
    await world.compact()
    # A broker that never saw the first batch must still know it.
    fresh = PipelineWorld()
    fresh.store, fresh.objects = world.store, world.objects
    await fresh.start()
    again = await fresh.log.append(topic.stream(0), fresh.batch(3, producer=(7, 0, 0)))
    assert again.base_offset == first
    await fresh.log.close()


async def test_a_catalog_that_is_down_stops_nothing_else(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    down = True

    def strike(step: str) -> None:
        if down:
            raise CatalogUnavailable("no route to catalog")

    pipeline, runner = await world.compactor(strike)
    world.clock.ms += world.settings.wal_max_age_ms
    for _ in range(5):
        summary = await pipeline.run_round()
        world.clock.ms += 60_000
        assert summary.failures == ["orders: no route to catalog"]
    assert runner.jobs == []
    assert await world.file_types(topic.stream(0)) == ["wal"]
    assert len(await world.read_all(topic.stream(0))) == 3
    down = False
    assert (await pipeline.run_round()).tasks == 1
    await pipeline.close()


async def test_a_catalog_that_goes_down_in_between(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    down = True

    def strike(step: str) -> None:
        if down and step == "commit":
            raise CatalogUnavailable("gone")

    pipeline, runner = await world.compactor(strike)
    world.clock.ms += world.settings.wal_max_age_ms
    for _ in range(5):
        await pipeline.run_round()
        world.clock.ms += 60_000
        await world.append(topic)
    # Files were written once; nothing is swapped, and no second task of the stream is planned.
    assert len(runner.jobs) == 1
    assert set(await world.file_types(topic.stream(0))) == {"wal"}
    before = await world.read_all(topic.stream(0))
    down = False
    for _ in range(2):
        await pipeline.run_round()
    assert set(await world.file_types(topic.stream(0))) == {"parquet"}
    assert await world.read_all(topic.stream(0)) == before
    assert world.table_offsets("orders") == list(range(18))
    await pipeline.close()


@pytest.mark.parametrize("applied", [True, False])
async def test_a_commit_without_an_answer_counts_once(world: PipelineWorld, applied: bool) -> None:
    topic = await world.create()
    await world.append(topic)
    struck: list[str] = []

    def strike(step: str) -> None:
        if step == ("commit-applied" if applied else "commit") and not struck:
            struck.append(step)
            raise CommitUnknown("500")

    pipeline, _ = await world.compactor(strike)
    world.clock.ms += world.settings.wal_max_age_ms
    summary = await pipeline.run_round()
    assert struck
    assert summary.failures == []
    assert world.table_offsets("orders") == [0, 1, 2]
    assert len(world.catalog.tables["orders"].snapshots) == 1
    await pipeline.close()


async def test_a_foreign_writer_is_respected(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    await world.append(topic)

    def strike(step: str) -> None:
        if step == "commit" and len(world.catalog.tables["orders"].snapshots) == 1:
            world.catalog.foreign_append("orders")

    pipeline, _ = await world.compactor(strike)
    world.clock.ms += world.settings.wal_max_age_ms
    await pipeline.run_round()
    assert len(world.catalog.tables["orders"].snapshots) == 3
    assert world.table_offsets("orders") == list(range(6))
    await pipeline.close()


async def test_a_dropped_table_comes_back_whole(world: PipelineWorld) -> None:
    topic = await world.create()
    for _ in range(3):
        await world.append(topic)
        await world.compact()
    pipeline, _ = await world.compactor()
    world.clock.ms += world.settings.wal_max_age_ms
    await world.append(topic)
    await pipeline.publisher.table(await world.topic_ref("orders"))
    del world.catalog.tables["orders"]
    world.clock.ms += world.settings.wal_max_age_ms
    summary = await pipeline.run_round()
    assert summary.failures == []
    assert world.table_offsets("orders") == list(range(12))
    await pipeline.close()


async def test_a_topic_created_again_gets_a_table_of_its_own(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    await world.compact()
    await world.topics.delete(topic)
    again = await world.create()
    await world.append(again, records=2)
    await world.compact()
    assert world.table_offsets("orders") == [0, 1]
    assert world.table_offsets(f"orders__{topic.number}") == [0, 1, 2]


async def test_a_runner_that_is_not_there_leaves_no_task(world: PipelineWorld) -> None:
    topic = await world.create()
    await world.append(topic)
    pipeline, runner = await world.compactor()

    def no_java(jobs: object) -> None:
        raise RunnerUnavailable("no Java: install one")

    runner.before = no_java
    world.clock.ms += world.settings.wal_max_age_ms
    summary = await pipeline.run_round()
    assert summary.failures == ["no Java: install one"]
    assert await world.store.scan(compaction.ACTIVE_PREFIX, compaction.ACTIVE_PREFIX + "~") == []
    await pipeline.close()


async def test_two_compactors_share_the_streams(world: PipelineWorld) -> None:
    topic = await world.create(partitions=4)
    for partition in range(4):
        await world.append(topic, partition)
    first, first_runner = await world.compactor()
    second, second_runner = await world.compactor()
    world.clock.ms += world.settings.wal_max_age_ms
    seen = []

    def second_works(jobs: object) -> None:
        seen.append(jobs)

    first_runner.before = second_works
    await first.run_round()
    await second.run_round()
    assert len(first_runner.jobs) == 4
    assert second_runner.jobs == []
    assert world.table_offsets("orders", 3) == [0, 1, 2]
    await first.close()
    await second.close()
