"""A compactor dies, or sleeps beyond its lock while another works, at every step of the saga."""

from __future__ import annotations

import pytest
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld, at_once

from towpath.lakehouse.pipeline import Pipeline
from towpath.metadata.keys import compaction
from towpath.metadata.store import prefix_end

STEPS = [
    "compaction-before-created",
    "compaction-created",
    "compaction-before-parquet-written",
    "compaction-parquet-written",
    "compaction-before-iceberg-committed",
    "compaction-iceberg-applied",
    "compaction-iceberg-committed",
    "compaction-index-put",
    "compaction-before-index-swapped",
    "compaction-index-swapped",
    "compaction-before-wal-gc-ready",
    "compaction-wal-gc-ready",
    "compaction-done",
]


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


async def filled(rewrite: bool) -> PipelineWorld:
    """A world where the next round compacts a range, or rewrites small files."""
    world = PipelineWorld()
    await world.start()
    topic = await world.create(partitions=2)
    for _ in range(world.settings.max_files_per_partition if rewrite else 3):
        await world.append(topic)
        await world.append(topic, 1)
        if rewrite:
            await world.compact()
    return world


async def due(world: PipelineWorld, pipeline: Pipeline, rewrite: bool) -> None:
    """Make the work due for this compactor."""
    world.clock.ms += world.settings.wal_max_age_ms
    if rewrite:
        topic = world.topics.get("orders")
        assert topic is not None
        for partition in range(2):
            pipeline.look_for_small_files(topic.stream(partition))


async def check(world: PipelineWorld, before: list[object], *, rewrite: bool) -> None:
    """Every offset is in the table once, every fetch gives what it gave, nothing is left."""
    topic = world.topics.get("orders")
    assert topic is not None
    for partition in range(2):
        stream = topic.stream(partition)
        records = 3 * (world.settings.max_files_per_partition if rewrite else 3)
        assert world.table_offsets("orders", partition) == list(range(records))
        assert await world.read_all(stream) == before[partition]
        assert await world.file_types(stream) == ["parquet"]
        tasks = compaction.tasks_prefix(stream)
        assert await world.store.scan(tasks, prefix_end(tasks)) == []
        files = {file.path for entry in await world.entries(stream) for file in entry.parquet}
        in_table = world.catalog.tables["orders"].files.items()
        assert files == {path for path, (where, _) in in_table if where == partition}
    active = compaction.ACTIVE_PREFIX
    assert await world.store.scan(active, prefix_end(active)) == []
    await world.collect_wal()
    assert await world.wal_paths() == []
    for partition in range(2):
        assert await world.read_all(topic.stream(partition)) == before[partition]


async def reads(world: PipelineWorld) -> list[object]:
    topic = world.topics.get("orders")
    assert topic is not None
    return [await world.read_all(topic.stream(partition)) for partition in range(2)]


@pytest.mark.parametrize("rewrite", [False, True], ids=["compact", "rewrite"])
@pytest.mark.parametrize("step", STEPS)
async def test_killed(step: str, rewrite: bool) -> None:
    world = await filled(rewrite)
    before = await reads(world)
    struck: list[str] = []

    def checkpoint(reached: str) -> None:
        if reached == step and not struck:
            struck.append(step)
            raise Killed

    victim, _ = await world.compactor(checkpoint=checkpoint)
    await due(world, victim, rewrite)
    with pytest.raises(Killed):
        await victim.run_round()
    assert await reads(world) == before
    world.clock.ms += 2 * world.settings.lock_ttl_ms
    heir, _ = await world.compactor()
    await due(world, heir, rewrite)
    for _ in range(2):
        summary = await heir.run_round()
        assert summary.failures == []
    await check(world, before, rewrite=rewrite)
    await heir.close()
    await world.log.close()


@pytest.mark.parametrize("rewrite", [False, True], ids=["compact", "rewrite"])
@pytest.mark.parametrize("step", STEPS)
async def test_asleep_while_another_works(step: str, rewrite: bool) -> None:
    world = await filled(rewrite)
    before = await reads(world)
    struck: list[str] = []
    heir, _ = await world.compactor()

    def checkpoint(reached: str) -> None:
        if reached == step and not struck:
            struck.append(step)
            world.clock.ms += 2 * world.settings.lock_ttl_ms
            at_once(due(world, heir, rewrite))
            for _ in range(2):
                assert at_once(heir.run_round()).failures == []

    sleeper, _ = await world.compactor(checkpoint=checkpoint)
    await due(world, sleeper, rewrite)
    await sleeper.run_round()
    assert struck
    assert await reads(world) == before
    for _ in range(2):
        assert (await sleeper.run_round()).failures == []
    await check(world, before, rewrite=rewrite)
    await heir.close()
    await sleeper.close()
    await world.log.close()
