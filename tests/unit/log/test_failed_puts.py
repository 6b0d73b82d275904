"""A put that failed may still arrive: its reservation stays until the collector has looked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.log_helpers import STREAM, World, batch

from towpath.errors import LogUnavailable
from towpath.gc.orphans import OrphanCollector
from towpath.gc.settings import GcSettings
from towpath.metadata.keys import wal
from towpath.metadata.store import KeyValue, prefix_end
from towpath.objects.store import ObjectStoreError
from towpath.observe.metrics import Metrics


async def markers(world: World) -> Sequence[KeyValue]:
    """The staging markers that are left."""
    return await world.first_store.scan(wal.STAGING_PREFIX, prefix_end(wal.STAGING_PREFIX))


async def test_an_object_that_arrives_after_its_error_is_collected() -> None:
    world = World()
    log = await world.log()
    world.objects.put_errors.append(ObjectStoreError("timed out"))
    with pytest.raises(LogUnavailable, match="timed out"):
        await log.append(STREAM, batch(b"lost"))
    await log.close()
    (row,) = await markers(world)
    marker = wal.StagingBlock.decode(row.value)
    wal_id = wal.wal_id(wal.parse_last_uuid(row.key), 0)
    await world.objects.put(f"{marker.path_prefix}{wal_id}.wo", [b"late"])
    settings = GcSettings(wal_gc_grace_ms=0, wal_orphan_ttl_ms=0)
    collector = OrphanCollector(
        world.first_store, world.objects, world.runtime, settings, Metrics()
    )
    await collector.run_once()
    await collector.run_once()
    assert [info async for info in world.objects.list("")] == []
    assert await markers(world) == []
