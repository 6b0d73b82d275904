"""What a log believes about its topics is never older than the walIds it has reserved."""

from __future__ import annotations

import pytest
from tests.unit.log_helpers import STREAM, World, batch

from towpath.errors import LogUnavailable, StreamGone
from towpath.metadata.store import StoreUnavailable


class Topics:
    """A stream's topic that is deleted, which is only known after a refresh."""

    def __init__(self) -> None:
        self.deleted = False
        self.known_as_deleted = False
        self.fails = False

    def is_live(self, stream_id: int) -> bool:
        return not self.known_as_deleted

    async def refresh(self) -> None:
        if self.fails:
            raise StoreUnavailable("no answer")
        self.known_as_deleted = self.deleted


async def test_a_log_that_slept_through_a_deletion_learns_of_it_before_it_appends() -> None:
    # With no time to live every flush finds its block too old, as after a long sleep.
    world = World(wal_orphan_ttl_ms=-4)
    topics = Topics()
    log = await world.log(live=topics.is_live, freshen=topics.refresh)
    await log.append(STREAM, batch(b"before"))
    topics.deleted = True
    with pytest.raises(StreamGone):
        await log.append(STREAM, batch(b"after"))
    await log.close()


async def test_a_log_that_cannot_learn_appends_nothing_and_recovers() -> None:
    world = World()
    topics = Topics()
    topics.fails = True
    log = await world.log(live=topics.is_live, freshen=topics.refresh)
    with pytest.raises(LogUnavailable):
        await log.append(STREAM, batch(b"lost"))
    topics.fails = False
    assert (await log.append(STREAM, batch(b"kept"))).base_offset == 0
    await log.close()
