"""What the fault tests with real processes found, each in a small world of its own."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.unit.lakehouse.helpers_pipeline import PipelineWorld, at_once

from towpath.metadata.keys import compaction
from towpath.metadata.store import prefix_end


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


def expire_locks(world: PipelineWorld) -> None:
    """So much time passes that every lock is free."""
    world.clock.ms += 2 * world.settings.lock_ttl_ms
    world.store.state.expire_silent()


async def test_a_task_is_found_whose_mark_another_process_took_away() -> None:
    world = PipelineWorld()
    await world.start()
    topic = await world.create()
    await world.append(topic)
    world.clock.ms += world.settings.wal_max_age_ms

    def die(reached: str) -> None:
        if reached == "compaction-iceberg-committed":
            raise Killed

    victim, _ = await world.compactor(checkpoint=die)

    def sleep(reached: str) -> None:
        if reached == "compaction-before-created":
            expire_locks(world)
            with pytest.raises(Killed):
                at_once(victim.run_round())

    # It marks the stream for a task that comes too late, and takes the mark away with the task.
    sleeper, _ = await world.compactor(checkpoint=sleep)
    await sleeper.run_round()
    await sleeper.close()
    expire_locks(world)
    heir, _ = await world.compactor()
    for _ in range(2):
        assert (await heir.run_round()).failures == []
    assert await world.file_types(topic.stream(0)) == ["parquet"]
    assert world.table_offsets("orders") == [0, 1, 2]
    for prefix in (compaction.ACTIVE_PREFIX, compaction.tasks_prefix(topic.stream(0))):
        assert await world.store.scan(prefix, prefix_end(prefix)) == []
    await heir.close()
    await world.log.close()


async def test_records_that_another_compactor_has_committed_are_not_reported_as_lost() -> None:
    world = PipelineWorld()
    await world.start()
    topic = await world.create()
    compactors = [(await world.compactor())[0] for _ in range(2)]
    with capture_logs() as logs:
        for number in range(4):
            await world.append(topic)
            world.clock.ms += world.settings.wal_max_age_ms
            assert (await compactors[number % 2].run_round()).tasks == 1
    assert world.table_offsets("orders") == list(range(12))
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []
    for compactor in compactors:
        await compactor.close()
    await world.log.close()
