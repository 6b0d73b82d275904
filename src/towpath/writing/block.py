"""The staging block that writers without a broker share.

Like a broker's block it is reserved in the metadata before anything is put under it, so that the
orphan collector finds what is never committed; and a commit is conditional on its marker, so what
the collector has condemned cannot be committed. Unlike a broker's it is used by many processes at
once: they draw their walIds at random and find out by an exclusive put whether one is taken.

A new block is begun long before the collector condemns the old one, so every write has at least
three quarters of `wal_orphan_ttl_ms` from its beginning to its commit.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from towpath.log.object.wal_format import staging_path_prefix
from towpath.metadata.keys import wal, writers
from towpath.metadata.store import ABSENT, Expect, KeyValue, MetadataStore, VersionConflict
from towpath.runtime import Runtime
from towpath.writing.errors import WriteFailed

NO_BROKER = -1
DAY_MS = 86_400_000
ATTEMPTS = 10
"""Races with other writers that begin a block at the same moment."""


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """A reserved block, as its marker was when the write began."""

    block_id: uuid.UUID
    marker_key: str
    marker_version: int
    path_prefix: str


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """What decides where a block's objects lie and how long it is used."""

    domain: int
    cluster_prefix: str
    zone: str
    wal_orphan_ttl_ms: int


async def current_block(store: MetadataStore, place: BlockPlace, runtime: Runtime) -> SharedBlock:
    """The block to stage under now; begins one if there is none or it has become old."""
    pointer_key = writers.current_block(place.domain)
    for _ in range(ATTEMPTS):
        pointer = await store.get(pointer_key)
        if pointer is not None:
            found = await _usable(store, place, pointer, runtime)
            if found is not None:
                return found
        begun = await _begin(store, place, runtime)
        expect: Expect = ABSENT if pointer is None else pointer.version
        try:
            value = writers.CurrentBlock(begun.block_id).encode()
            await store.put(pointer_key, value, expect=expect)
        except VersionConflict:
            # Another writer was faster, and nothing was put under this block. If the collector has
            # condemned it meanwhile, it will remove it.
            with contextlib.suppress(VersionConflict):
                await store.delete(begun.marker_key, expect=begun.marker_version)
            continue
        return begun
    raise WriteFailed("writers keep beginning staging blocks at the same time")


async def _usable(
    store: MetadataStore, place: BlockPlace, pointer: KeyValue, runtime: Runtime
) -> SharedBlock | None:
    block_id = writers.CurrentBlock.decode(pointer.value).block
    key = wal.staging(place.domain, block_id)
    row = await store.get(key)
    if row is None:
        return None
    marker = wal.StagingBlock.decode(row.value)
    now_ms = runtime.clock.now_ms()
    age_ms = now_ms - marker.created_at_ms
    if (
        marker.condemned_at_ms is not None
        or not 0 <= age_ms <= place.wal_orphan_ttl_ms // 4
        or marker.created_at_ms // DAY_MS != now_ms // DAY_MS
        or marker.path_prefix != _path_prefix(place, marker.created_at_ms)
    ):
        return None
    return SharedBlock(block_id, key, row.version, marker.path_prefix)


async def _begin(store: MetadataStore, place: BlockPlace, runtime: Runtime) -> SharedBlock:
    block_id = wal.new_block(runtime.random.getrandbits(128))
    key = wal.staging(place.domain, block_id)
    now_ms = runtime.clock.now_ms()
    prefix = _path_prefix(place, now_ms)
    marker = wal.StagingBlock(prefix, now_ms, NO_BROKER)
    version = await store.put(key, marker.encode(), expect=ABSENT)
    return SharedBlock(block_id, key, version, prefix)


def _path_prefix(place: BlockPlace, at_ms: int) -> str:
    date = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y/%m/%d")
    return staging_path_prefix(place.cluster_prefix, place.zone, place.domain, date)
