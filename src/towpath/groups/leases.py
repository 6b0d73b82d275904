"""The leases and digests of one broker: ephemeral keys in one session.

A lease decides who runs a group's timers and nothing else. Two brokers that both believe to hold it
do no harm, because every change of a group is a compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import GroupLease, SeenDigest
from towpath.metadata.store import (
    ABSENT,
    MetadataError,
    MetadataStore,
    OutcomeUnknown,
    Session,
    SessionExpired,
    VersionConflict,
)
from towpath.runtime import Clock


@dataclass(frozen=True, slots=True)
class FoundLease:
    """A lease as it is in the store."""

    broker_id: int
    version: int
    is_mine: bool


class GroupLeases:
    """This broker's session and what it keeps in it."""

    def __init__(self, store: MetadataStore, clock: Clock, broker_id: int, ttl_ms: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._ttl_ms = ttl_ms
        self._epoch = self._first_epoch = clock.now_ms()
        """Of the last lease taken; it starts at the present time, so that no two runs share one."""
        self.doubtful: set[str] = set()
        """Groups of which a lease or digest of ours may be left, or come late."""
        self._session: Session | None = None
        self._opening = asyncio.Lock()

    async def find(self, group_id: str) -> FoundLease | None:
        """The group's lease now."""
        row = await self._store.get(keys.lease(group_id))
        if row is None:
            return None
        lease = GroupLease.decode(row.value)
        return FoundLease(lease.broker_id, row.version, self._is_mine(lease))

    def _is_mine(self, lease: GroupLease) -> bool:
        """Whether this run of the broker has put the lease. Any of its puts counts: one whose
        outcome was unknown may come late, after the next one was sent. As long as it is there it
        is ours, whichever of our sessions it belongs to; when that has ended, it vanishes."""
        in_this_run = self._first_epoch < lease.epoch <= self._epoch
        return lease.broker_id == self._broker_id and in_this_run

    async def take(self, group_id: str) -> FoundLease | None:
        """Take the lease if nobody has it. The answer is the lease as it is then, ours or not; None
        if it is free but could not be taken, because our session has ended."""
        session = await self._live_session()
        self._epoch += 1
        value = GroupLease(self._broker_id, self._epoch).encode()
        try:
            version = await self._store.put(
                keys.lease(group_id), value, expect=ABSENT, session=session
            )
        except SessionExpired:
            self._session = None
            return None
        except OutcomeUnknown:
            self.doubtful.add(group_id)
            return await self.find(group_id)
        except VersionConflict:
            return await self.find(group_id)
        return FoundLease(self._broker_id, version, is_mine=True)

    async def release(self, group_id: str) -> None:
        """Give the lease back, if it is ours."""
        try:
            found = await self.find(group_id)
            if found is not None and found.is_mine:
                await self._store.delete(keys.lease(group_id), expect=found.version)
        except VersionConflict:
            return
        except MetadataError:
            self.doubtful.add(group_id)
            raise

    async def settle_doubts(self, is_served: Callable[[str], bool]) -> None:
        """Remove what is left in the store of groups that are not served here any more. Of those
        that are, the actors have been told."""
        for group_id in sorted(self.doubtful):
            if not is_served(group_id):
                self.doubtful.discard(group_id)
                await self.release(group_id)
                await self.untell(group_id)

    async def tell(self, group_id: str, digest: SeenDigest) -> None:
        """Write this broker's digest of a group."""
        try:
            session = await self._live_session()
            key = keys.seen(group_id, self._broker_id)
            await self._store.put(key, digest.encode(), session=session)
        except SessionExpired:
            self._session = None

    async def untell(self, group_id: str) -> None:
        """Remove this broker's digest of a group."""
        try:
            await self._store.delete(keys.seen(group_id, self._broker_id))
        except MetadataError:
            self.doubtful.add(group_id)
            raise

    async def close(self) -> None:
        """Give everything back at once."""
        session, self._session = self._session, None
        if session is not None:
            try:
                await session.close()
            except MetadataError:
                return  # It ends by itself.

    async def _live_session(self) -> Session:
        async with self._opening:
            if self._session is None or self._session.expired:
                self._session = await self._store.open_session(self._ttl_ms)
            return self._session
