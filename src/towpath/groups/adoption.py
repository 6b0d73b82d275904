"""Groups that have members but no broker: each is adopted by its candidate.

Members that died together with their broker must expire, though nobody talks to any broker about
them. So when a lease vanishes, and now and then for all groups, the broker that the group's name
hashes to looks whether the group needs a holder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from towpath.cluster.interface import Cluster
from towpath.cluster.rendezvous import key_hash
from towpath.groups.leases import GroupLeases
from towpath.groups.listing import group_ids
from towpath.groups.store import GroupStore
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import DEAD, GroupRoot
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import MetadataError, MetadataStore

SWEEP_INTERVAL_MS = 60_000
"""How often every group is looked at."""
ORPHAN_INTERVAL_MS = 500
"""How often groups are looked at whose lease has vanished."""
ORPHAN_LOOKS = 60
"""How many times; then the group is left to the sweep."""
ORPHANS_MAX = 100_000

EMPTY = "Empty"

_log = structlog.get_logger(__name__)


class Adoption:
    """One task per broker that looks for orphans."""

    def __init__(
        self,
        store: MetadataStore,
        groups: GroupStore,
        leases: GroupLeases,
        cluster: Cluster,
        adopt: Callable[[str], None],
        is_served: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._groups = groups
        self._leases = leases
        self._cluster = cluster
        self._adopt = adopt
        self._is_served = is_served
        """Whether this broker has the group in memory."""
        self._orphans: dict[str, int] = {}
        """By group, how many looks are left."""
        self._wake = asyncio.Event()
        self._all_are_due = True
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look at every group at once, then whenever there is reason to."""
        self._task = asyncio.create_task(self._run(), name="groups-adoption")

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def lease_vanished(self, group_id: str) -> None:
        """A group that this broker does not serve may have nobody now."""
        if len(self._orphans) < ORPHANS_MAX:
            self._orphans[group_id] = ORPHAN_LOOKS
            self._wake.set()

    def look_at_all(self) -> None:
        """Changes may have been missed."""
        self._all_are_due = True
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                if self._all_are_due:
                    self._all_are_due = False
                    await self._look_at_all()
                await self._look_at_orphans()
            except MetadataError as error:
                _log.warning("groups cannot be looked through", error=str(error))
                self._all_are_due = True
            await self._sleep()

    async def _sleep(self) -> None:
        """Until something is due."""
        interval_ms = ORPHAN_INTERVAL_MS if self._orphans else SWEEP_INTERVAL_MS
        self._wake.clear()
        try:
            async with asyncio.timeout(interval_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            self._all_are_due = self._all_are_due or not self._orphans

    async def _look_at_all(self) -> None:
        await self._leases.settle_doubts(self._is_served)
        async for group_id in group_ids(self._store):
            if self._is_candidate(group_id) and await self._leases.find(group_id) is None:
                await self._look(group_id)

    async def _look_at_orphans(self) -> None:
        """The candidate may still be the dead broker, until its registration is gone as well."""
        if self._orphans:
            await self._cluster.refresh()
        for group_id, looks_left in list(self._orphans.items()):
            if await self._leases.find(group_id) is not None or looks_left == 0:
                del self._orphans[group_id]
            elif self._is_candidate(group_id):
                del self._orphans[group_id]
                await self._look(group_id)
            else:
                self._orphans[group_id] = looks_left - 1

    async def _look(self, group_id: str) -> None:
        """Adopt the group if it needs a holder; remove what a deleted one has left."""
        row = await self._store.get(keys.state(group_id))
        try:
            root = None if row is None else GroupRoot.decode(row.value)
        except UnknownValueVersion as error:
            _log.error("a group cannot be read", group=group_id, error=str(error))
            return
        if root is None or root.kind == DEAD:
            await self._groups.sweep(group_id)
        elif _has_timers(root):
            self._adopt(group_id)

    def _is_candidate(self, group_id: str) -> bool:
        return self._cluster.leader(key_hash(group_id)) == self._cluster.broker_id


def _has_timers(root: GroupRoot) -> bool:
    """Whether something becomes due. In an empty group these are ids that were given to members
    which have not joined yet: the next rebalance would wait for them."""
    return root.state_name != EMPTY or bool(root.fields.get("pending"))
