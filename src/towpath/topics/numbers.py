"""Topic numbers: unique for ever, handed out by compare-and-set on one key."""

from __future__ import annotations

import asyncio

from towpath.errors import ConcurrentChange
from towpath.metadata.keys.topics import NEXT_NUMBER
from towpath.metadata.store import ABSENT, Expect, MetadataStore, OutcomeUnknown, VersionConflict

FIRST_NUMBER = 1
ATTEMPTS = 100
"""Lost races with other brokers before a creation gives up."""


class TopicNumbers:
    """Hands out numbers. One whose put got lost is skipped, never handed out twice."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        # Creations of one process take turns, so that they only race with other brokers.
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """A number that no other topic has, had or will have; ConcurrentChange after too many
        lost races."""
        async with self._lock:
            for _ in range(ATTEMPTS):
                found = await self._store.get(NEXT_NUMBER)
                number = int(found.value) if found is not None else FIRST_NUMBER
                expect: Expect = found.version if found is not None else ABSENT
                try:
                    await self._store.put(NEXT_NUMBER, b"%d" % (number + 1), expect=expect)
                except (VersionConflict, OutcomeUnknown):
                    continue
                return number
        raise ConcurrentChange("too many topics are being created at once; try again")
