"""Producer state in memory that falls behind entries which are removed meanwhile."""

from __future__ import annotations

import pytest
from tests.unit.log_helpers import STREAM, World, batch

from towpath.gc.entries import release_entries
from towpath.log.object.log import ObjectLog

PRODUCER_ID = 9


async def write(log: ObjectLog, *sequences: int) -> None:
    """One batch of the producer after the other."""
    for sequence in sequences:
        await log.append(STREAM, batch(b"%d" % sequence, producer=(PRODUCER_ID, 0, sequence)))


@pytest.mark.parametrize("kept", [0, 1])
async def test_a_table_behind_removed_entries_takes_over_what_they_held(kept: int) -> None:
    """With `kept` 0 the tail itself is removed: its tombstone keeps the offset and no producer."""
    world = World()
    one, two = await world.log(), await world.log(world.second_store())
    await write(two, 0)
    await write(one, 1, 2, 3)
    await one.delete_before(STREAM, 4 - kept)
    await release_entries(world.first_store, STREAM, 4 - kept, one.save_producers, limit=100)
    repeated = await two.append(STREAM, batch(b"2", producer=(PRODUCER_ID, 0, 2)))
    assert repeated.base_offset == 2
    await write(two, 4)
    assert (await two.bounds([STREAM]))[0].end == 5
