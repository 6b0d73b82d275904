"""Producer ids: unique for ever, handed out from blocks taken by compare-and-set."""

from __future__ import annotations

import asyncio

from towpath.metadata.keys.cluster import PRODUCER_IDS
from towpath.metadata.store import ABSENT, Expect, MetadataStore, VersionConflict

BLOCK_SIZE_IDS = 1000


class ProducerIds:
    """Hands out ids. A block whose put got lost is skipped, never handed out twice."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next_id = 0
        self._block_end = 0
        self._lock = asyncio.Lock()

    async def next_id(self) -> int:
        """A producer id that nobody else has or will get."""
        async with self._lock:
            if self._next_id == self._block_end:
                await self._take_block()
            self._next_id += 1
            return self._next_id - 1

    async def _take_block(self) -> None:
        while True:
            found = await self._store.get(PRODUCER_IDS)
            start = int(found.value) if found is not None else 0
            expect: Expect = found.version if found is not None else ABSENT
            end = start + BLOCK_SIZE_IDS
            try:
                await self._store.put(PRODUCER_IDS, b"%d" % end, expect=expect)
            except VersionConflict:
                continue
            self._next_id, self._block_end = start, end
            return
