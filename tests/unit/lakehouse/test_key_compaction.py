"""Topics with `cleanup.policy=compact`: the newest record of every key, at its own offset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld, Seen

from towpath.lakehouse.pipeline import Pipeline
from towpath.metadata.keys.compaction import Cleaned
from towpath.records.batch import BatchInfo
from towpath.records.build import NewRecord, build_batch
from towpath.topics.interface import NewTopic, Topic

Pair = tuple[bytes | None, bytes | None]


async def compacted(world: PipelineWorld, **overrides: str) -> Topic:
    await world.start()
    configs: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        **{name.replace("_", "."): value for name, value in overrides.items()},
    }
    return await world.topics.create(NewTopic("orders", 1, overrides=configs))


async def write(world: PipelineWorld, topic: Topic, *pairs: Pair) -> None:
    records = [NewRecord(key=key, value=value, timestamp_ms=world.clock.ms) for key, value in pairs]
    data = build_batch(records)
    batch = BatchInfo(data, len(pairs), world.clock.ms, world.clock.ms)
    await world.log.append(topic.stream(0), batch)


async def rounds(world: PipelineWorld, pipeline: Pipeline, count: int = 2) -> None:
    """First WAL becomes Parquet, then keys are compacted."""
    for _ in range(count):
        world.clock.ms += 20_000
        assert (await pipeline.run_round()).failures == []


def pairs_of(seen: list[Seen]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(offset, key, value) for offset, _, key, value, _ in seen]


async def test_the_newest_of_every_key_stays() -> None:
    world = PipelineWorld()
    topic = await compacted(world)
    pipeline, _ = await world.compactor()
    await write(world, topic, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    await write(world, topic, (b"c", b"1"), (b"b", b"2"), (b"", b"empty key"))
    await rounds(world, pipeline)
    kept = [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"", b"empty key")]
    assert pairs_of(await world.read_all(topic.stream(0))) == kept
    assert world.table_offsets("orders") == [2, 3, 4, 5]
    operations = [snapshot.operation for snapshot in world.catalog.tables["orders"].snapshots]
    assert operations == ["append", "overwrite"]
    # Nothing new: nothing to do.
    await rounds(world, pipeline)
    assert len(world.catalog.tables["orders"].snapshots) == 2
    await write(world, topic, (b"a", b"3"))
    await rounds(world, pipeline)
    assert pairs_of(await world.read_all(topic.stream(0)))[-1] == (6, b"a", b"3")
    assert world.table_offsets("orders") == [3, 4, 5, 6]
    (bounds,) = await world.log.bounds((topic.stream(0),))
    assert (bounds.start, bounds.end) == (0, 7)
    await pipeline.close()


async def test_markers_of_deleted_keys_stay_for_a_time() -> None:
    world = PipelineWorld()
    topic = await compacted(world, delete_retention_ms="100000")
    pipeline, _ = await world.compactor()
    await write(world, topic, (b"a", b"1"), (b"b", b"1"), (b"a", None))
    await rounds(world, pipeline)
    assert pairs_of(await world.read_all(topic.stream(0))) == [(1, b"b", b"1"), (2, b"a", None)]
    # Cleaned again within the time: the marker stays.
    await write(world, topic, (b"c", b"1"))
    await rounds(world, pipeline)
    assert world.table_offsets("orders") == [1, 2, 3]
    world.clock.ms += 100_000
    await write(world, topic, (b"d", b"1"))
    await rounds(world, pipeline)
    assert world.table_offsets("orders") == [1, 3, 4]
    assert [offset for offset, *_ in await world.read_all(topic.stream(0))] == [1, 3, 4]
    await pipeline.close()


async def test_young_records_are_left_alone() -> None:
    world = PipelineWorld()
    topic = await compacted(world, min_compaction_lag_ms="1000000")
    pipeline, _ = await world.compactor()
    await write(world, topic, (b"a", b"1"), (b"a", b"2"))
    await rounds(world, pipeline)
    assert world.table_offsets("orders") == [0, 1]
    world.clock.ms += 1_000_000
    await write(world, topic, (b"a", b"3"))
    await rounds(world, pipeline)
    assert world.table_offsets("orders") == [1, 2]
    await pipeline.close()


async def test_a_small_dirty_part_waits_for_its_share_or_its_age() -> None:
    world = PipelineWorld()
    lag = {"max_compaction_lag_ms": "1000000", "min_cleanable_dirty_ratio": "0.6"}
    topic = await compacted(world, **lag)
    pipeline, _ = await world.compactor()
    await write(world, topic, *[(b"%d" % n, b"x" * 100) for n in range(20)])
    await rounds(world, pipeline)
    await write(world, topic, (b"0", b"new"))
    await rounds(world, pipeline)
    assert 0 in world.table_offsets("orders")
    world.clock.ms += 1_000_000
    await rounds(world, pipeline)
    assert world.table_offsets("orders") == list(range(1, 21))
    await pipeline.close()


async def test_everything_may_vanish_and_no_reader_stalls() -> None:
    world = PipelineWorld()
    topic = await compacted(world, delete_retention_ms="0")
    pipeline, _ = await world.compactor()
    await write(world, topic, (b"a", None), (b"b", None))
    await rounds(world, pipeline)
    await write(world, topic, (b"a", None))
    await rounds(world, pipeline, 4)
    world.clock.ms += 1
    await write(world, topic, (b"a", None))
    await rounds(world, pipeline, 4)
    # The last marker stays until the next pass; what is before it is a void range.
    seen = await world.read_all(topic.stream(0))
    assert [offset for offset, *_ in seen] == world.table_offsets("orders")
    assert len(seen) <= 2
    await pipeline.close()


async def test_records_without_a_key_go() -> None:
    """They can only be there from a time when the topic's policy was another one."""
    world = PipelineWorld()
    topic = await compacted(world)
    pipeline, _ = await world.compactor()
    await write(world, topic, (None, b"1"), (b"a", b"1"))
    await rounds(world, pipeline)
    assert world.table_offsets("orders") == [1]
    await pipeline.close()


async def test_keys_beyond_memory_ask_for_a_shuffle() -> None:
    world = PipelineWorld(key_memory_bytes=10)
    topic = await compacted(world)
    pipeline, runner = await world.compactor()
    await write(world, topic, (b"a" * 20, b"1"), (b"b" * 20, b"1"))
    world.clock.ms += 20_000
    await pipeline.run_round()
    world.clock.ms += 20_000
    summary = await pipeline.run_round()
    assert summary.failures == ["key-compact orders-0 [0, 2): its keys outgrow a worker's memory"]
    asked: list[Any] = []

    async def shuffle(job: Any) -> Any:
        asked.append(job.title)
        return replace(job, key_memory_bytes=1 << 20)

    runner.shuffle = shuffle  # type: ignore[method-assign]
    await rounds(world, pipeline)
    assert asked
    assert world.table_offsets("orders") == [0, 1]
    await pipeline.close()


@pytest.mark.parametrize("count", [1, 5, 300])
def test_cleaned_points_are_bounded_and_never_forget_too_early(count: int) -> None:
    cleaned = Cleaned()
    for number in range(1, count + 1):
        cleaned = cleaned.extended(number * 10, number * 1000)
    assert cleaned.end == count * 10
    assert len(cleaned.points) <= 100
    assert Cleaned.decode(cleaned.encode()) == cleaned
    for at_ms in range(0, count * 1000 + 500, 500):
        # What was cleaned at or before the time lies below; a bounded list may say less.
        assert cleaned.first_cleaned_before(at_ms) <= at_ms // 1000 * 10
