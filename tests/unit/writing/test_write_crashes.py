"""Drivers of one query that die anywhere, lose answers, sleep and overlap, beside a collector that
takes what is old: every epoch is in the topic once, and in the end no object is left over."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest
from tests.unit.gc.helpers_fused import Crash, Fuse, FusedStore
from tests.unit.writing.helpers_writing import GRACE_MS, TTL_MS, Row, World, make_target

from towpath.metadata.keys import wal
from towpath.metadata.store import (
    Append,
    Committed,
    Condition,
    ConditionFailed,
    MetadataStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    prefix_end,
)
from towpath.writing import commit as commit_module
from towpath.writing.block import BlockPlace, current_block
from towpath.writing.commit import Epoch
from towpath.writing.errors import WriteFailed
from towpath.writing.settle import settle
from towpath.writing.staged import Staged

EPOCHS = 12
DRIVERS = 2
LATE_TURNS = 4
PLACE = BlockPlace(0, "towpath", "default", TTL_MS)


class FaultyStore(FusedStore):
    """A store whose user may die before any operation, and that loses some answers; some of the
    commits whose answers were lost arrive later."""

    def __init__(
        self, inner: MetadataStore, chance: random.Random, late: list[asyncio.Task[None]]
    ) -> None:
        left = chance.choice([None, chance.randrange(12)])
        super().__init__(inner, Fuse(chance, left))
        self.chance = chance
        self.late = late

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        fault = self.chance.choice(["", "", "", "refused", "lost before", "late", "lost after"])
        if fault == "refused":
            raise StoreUnavailable("not now")
        if fault == "lost before":
            raise OutcomeUnknown("not applied")
        commit = super().commit(domain, appends=appends, puts=puts, deletes=deletes, expect=expect)
        if fault == "late":
            self.late.append(asyncio.create_task(_later(commit)))
            raise OutcomeUnknown("not applied yet")
        done = await commit
        if fault == "lost after":
            raise OutcomeUnknown("applied")
        return done


async def _later(commit: Awaitable[Committed]) -> None:
    for _ in range(LATE_TURNS):
        await asyncio.sleep(0)
    with contextlib.suppress(Crash, ConditionFailed):
        await commit


class Checkpoint:
    """What Spark knows: the next epoch, noted after its commit; and the commits on their way."""

    def __init__(self) -> None:
        self.next_epoch = 0
        self.late: list[asyncio.Task[None]] = []


def rows_of(epoch: int) -> list[list[Row]]:
    """The rows of an epoch's two tasks."""
    return [
        [Row(b"%d-%d-%d" % (epoch, task, n), partition=(task + n) % 3) for n in range(3)]
        for task in range(2)
    ]


async def run_epoch(world: World, checkpoint: Checkpoint, chance: random.Random) -> None:
    """One micro-batch of one driver, from its plan to Spark's own note."""
    store = FaultyStore(world.store, chance, checkpoint.late)
    epoch = checkpoint.next_epoch
    block = await current_block(store, PLACE, world.runtime)
    target = make_target(world.directory, block=block)
    staged: list[Staged] = []
    for rows in rows_of(epoch):
        await asyncio.sleep(0)
        staged.append(world.stage_one(target, rows))
        if chance.random() < 0.1:
            raise Crash
    if chance.random() < 0.1:
        # It sleeps, while a collector does its work.
        world.clock.ms += chance.choice([TTL_MS // 2, TTL_MS])
        for _ in range(2):
            await world.collect_orphans()
            world.clock.ms += GRACE_MS
    await settle(store, world.objects, staged, Epoch("q", epoch), world.runtime)
    if chance.random() < 0.2:
        raise Crash
    checkpoint.next_epoch = max(checkpoint.next_epoch, epoch + 1)


async def drive(world: World, checkpoint: Checkpoint, chance: random.Random) -> None:
    """A driver, started again whenever it died or failed."""
    while checkpoint.next_epoch < EPOCHS:
        try:
            await run_epoch(world, checkpoint, chance)
        except (Crash, WriteFailed, StoreUnavailable):
            await asyncio.sleep(0)


async def collect(world: World, checkpoint: Checkpoint) -> None:
    """The collector of a broker, all the time."""
    while checkpoint.next_epoch < EPOCHS:
        await world.collect_orphans()
        world.clock.ms += GRACE_MS
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(25))
async def test_every_epoch_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(commit_module, "RETRY_DELAY_SECONDS", 0.0)
    world, checkpoint = World(tmp_path), Checkpoint()
    await world.create_topic()
    async with asyncio.timeout(120):
        await asyncio.gather(
            *(drive(world, checkpoint, random.Random(seed * 100 + n)) for n in range(DRIVERS)),
            collect(world, checkpoint),
        )
    await asyncio.gather(*checkpoint.late)
    found = await world.values()
    for partition in range(3):
        assert found[partition] == [
            row.value
            for epoch in range(EPOCHS)
            for rows in rows_of(epoch)
            for row in rows
            if row.partition == partition
        ]
    world.clock.ms += TTL_MS
    await world.collect_orphans()
    world.clock.ms += GRACE_MS
    await world.collect_orphans()
    prefix = wal.OBJECTS_PREFIX
    recorded = await world.store.scan(prefix, prefix_end(prefix))
    assert world.paths() == {wal.WalObject.decode(row.value).path for row in recorded}
    assert len(recorded) == 2 * EPOCHS
    assert await world.values() == found
