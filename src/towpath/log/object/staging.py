"""Staging markers: walIds are reserved in the metadata before their objects are PUT.

One marker reserves a block of walIds, so a flush costs no extra write. A crash at any moment leaves
the marker behind, and the orphan collector deletes what was put under it and never committed. The
commit of an object is conditional on its block's marker, so what was condemned cannot be committed.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from towpath.log.object.settings import ObjectLogSettings
from towpath.log.object.stream_filter import Freshen
from towpath.log.object.wal_format import staging_path_prefix
from towpath.metadata.keys import wal
from towpath.metadata.store import ABSENT, MetadataError, MetadataStore
from towpath.objects.store import ObjectStore, ObjectStoreError
from towpath.runtime import Runtime

DAY_MS = 86_400_000


@dataclass(slots=True)
class Block:
    """A reserved block: how many of its ids were handed out, and how many are not settled yet."""

    block_id: uuid.UUID
    marker_key: str
    marker_version: int
    path_prefix: str
    created_monotonic_ms: int
    day: int
    """Since 1970, of the date in the path."""
    taken: int = 0
    unsettled: int = 0
    retired: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """One reserved walId and the place of its object."""

    wal_id: uuid.UUID
    path: str
    block: Block


class Staging:
    """Hands out walIds of one domain. Not for concurrent use: the domain's writer awaits each."""

    def __init__(
        self,
        domain: int,
        store: MetadataStore,
        objects: ObjectStore,
        runtime: Runtime,
        settings: ObjectLogSettings,
        freshen: Freshen,
    ) -> None:
        self._domain = domain
        self._store = store
        self._objects = objects
        self._runtime = runtime
        self._settings = settings
        self._freshen = freshen
        self._block: Block | None = None

    async def take(self) -> Slot:
        """The next walId; reserves a new block when the present one is used up or old."""
        block = self._block
        if block is None or self._is_over(block):
            block = await self._renew()
        number = block.taken
        block.taken += 1
        block.unsettled += 1
        wal_id = wal.wal_id(block.block_id, number)
        return Slot(wal_id, f"{block.path_prefix}{wal_id}.wo", block)

    async def prepare(self) -> None:
        """Reserve the first block ahead, so that the first flush does not pay for it."""
        if self._block is None:
            await self._renew()

    def may_commit(self, slot: Slot) -> bool:
        """Whether the block is young enough for a store that cannot make commits conditional."""
        age_ms = self._runtime.clock.monotonic_ms() - slot.block.created_monotonic_ms
        return age_ms <= self._settings.wal_orphan_ttl_ms // 2

    async def settle(self, slot: Slot) -> None:
        """The object is committed, or surely not there: its id needs the marker no more."""
        slot.block.unsettled -= 1
        await self._drop_marker_if_done(slot.block)

    async def discard(self, slot: Slot) -> None:
        """The object will never be committed: delete it now, or leave it to the collector."""
        try:
            await self._objects.delete(slot.path)
        except ObjectStoreError:
            return
        await self.settle(slot)

    async def abandon(self, slot: Slot) -> None:
        """The put failed, and may still arrive: delete what is there, and keep the marker, so that
        the collector finds what comes later."""
        try:
            await self._objects.delete(slot.path)
        except ObjectStoreError:
            return

    def condemned(self, slot: Slot) -> None:
        """The collector took the slot's block: nothing of it can be committed any more."""
        if self._block is slot.block:
            self._block = None

    async def close(self) -> None:
        """Retire the present block; its marker goes once every id is settled."""
        block, self._block = self._block, None
        if block is not None:
            block.retired = True
            await self._drop_marker_if_done(block)

    def _is_over(self, block: Block) -> bool:
        age_ms = self._runtime.clock.monotonic_ms() - block.created_monotonic_ms
        return (
            block.taken >= wal.BLOCK_SIZE_IDS
            or age_ms > self._settings.wal_orphan_ttl_ms // 4
            or block.day != self._runtime.clock.now_ms() // DAY_MS
        )

    async def _renew(self) -> Block:
        await self.close()
        now_ms = self._runtime.clock.now_ms()
        date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y/%m/%d")
        block_id = wal.new_block(self._runtime.random.getrandbits(128))
        prefix = staging_path_prefix(
            self._settings.cluster_prefix, self._settings.zone, self._domain, date
        )
        key = wal.staging(self._domain, block_id)
        created_ms = self._runtime.clock.monotonic_ms()
        marker = wal.StagingBlock(prefix, now_ms, self._settings.broker_id)
        # A broker that slept for longer than a deleted topic's grave lasts must not append to it:
        # what it believes is never older than its block, which such a sleep outlives.
        await self._freshen()
        version = await self._store.put(key, marker.encode(), expect=ABSENT)
        self._block = Block(block_id, key, version, prefix, created_ms, now_ms // DAY_MS)
        return self._block

    async def _drop_marker_if_done(self, block: Block) -> None:
        if not block.retired or block.unsettled:
            return
        try:
            await self._store.delete(block.marker_key, expect=block.marker_version)
        except MetadataError:
            # The collector removes the marker when its time has come; nothing depends on it.
            return
