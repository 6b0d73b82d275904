"""Groups on the metadata store: the actors of one broker, and what the watch tells them.

Any broker serves any group. The group's truth is its root, which every broker changes by
compare-and-set; what a broker has in memory is a cache. Groups that nobody asks this broker for are
forgotten after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import structlog

from towpath.cluster.interface import Cluster
from towpath.errors import GroupUnavailable
from towpath.groups.actor import GroupActor, Shared
from towpath.groups.adoption import Adoption
from towpath.groups.configs import GroupConfigs
from towpath.groups.interface import Groups, GroupView, ListedGroup
from towpath.groups.leases import GroupLeases
from towpath.groups.listing import group_ids
from towpath.groups.registration import Asked, Registration
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Step
from towpath.groups.store import GroupStore
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import DEAD, GroupRoot
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import ChangeSet, MetadataError, MetadataStore, Watch
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime
from towpath.topics.interface import Topics

R = TypeVar("R")

IDLE_MS = 60_000
"""A group that nobody asked for in this time is forgotten, if nothing depends on it here."""
TIDY_INTERVAL_MS = 15_000
ACTORS_MAX = 10_000
"""Beyond so many groups in memory, idle ones are forgotten at once."""

_log = structlog.get_logger(__name__)

_FAILURES = (MetadataError, UnknownValueVersion)


class GroupCoordinator(Groups):
    """Every group, as this broker serves it."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        topics: Topics,
        cluster: Cluster,
        settings: GroupSettings,
        kinds: Mapping[str, type[GroupState]],
        *,
        session_ttl_ms: int,
        metrics: Metrics | None = None,
        registration: Registration | None = None,
    ) -> None:
        self.settings = settings
        self.configs = GroupConfigs(store, settings)
        self._store = store
        self._clock = runtime.clock
        self._leases = GroupLeases(store, runtime.clock, cluster.broker_id, session_ttl_ms)
        groups = GroupStore(store, kinds)
        metrics = Metrics() if metrics is None else metrics
        self._shared = Shared(
            store,
            groups,
            self._leases,
            runtime,
            topics,
            settings,
            metrics,
            registration or (lambda: None),
        )
        self._broker_id = cluster.broker_id
        self._actors: dict[str, GroupActor] = {}
        self._by_segment: dict[str, GroupActor] = {}
        self._watch: Watch | None = None
        self._adoption = Adoption(
            store, groups, self._leases, cluster, self._adopt, self._actors.__contains__
        )
        self._tidier: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow the groups' keys, and look after groups that nobody serves."""
        self._watch = self._store.watch(keys.GROUPS_PREFIX, self._on_change)
        self._tidier = asyncio.create_task(self._tidy(), name="groups-tidier")
        self._adoption.start()

    async def close(self) -> None:
        """Stop serving and give every lease back."""
        if self._watch is not None:
            self._watch.cancel()
        await self._adoption.close()
        if self._tidier is not None:
            self._tidier.cancel()
            await asyncio.gather(self._tidier, return_exceptions=True)
        for actor in list(self._actors.values()):
            await actor.close()
        await self._leases.close()

    # Groups

    async def view(self, group_id: str) -> GroupView:
        actor = self._actor(group_id)
        try:
            return await actor.view()
        except _FAILURES as error:
            raise _unavailable(group_id, error) from error

    def remembered(self, group_id: str) -> GroupView | None:
        actor = self._actors.get(group_id)
        if actor is None:
            return None
        actor.used_ms = self._clock.monotonic_ms()
        return actor.remembered

    def asked(self) -> Asked:
        return Asked(self._shared.registration())

    async def apply(self, group_id: str, step: Step[R], asked: Asked | None = None) -> R:
        return await self._actor(group_id).apply(step, asked or self.asked())

    async def until(
        self,
        group_id: str,
        look: Callable[[GroupState | None], R | None],
        member_id: str | None = None,
    ) -> R:
        actor = self._actor(group_id)
        try:
            return await actor.until(look, member_id)
        except _FAILURES as error:
            raise _unavailable(group_id, error) from error

    def seen(self, group_id: str, member_id: str) -> None:
        self._actor(group_id).seen(member_id)

    async def list_groups(self) -> Sequence[ListedGroup]:
        try:
            return [
                listed
                async for group_id in group_ids(self._store)
                if (listed := await self._listed(group_id)) is not None
            ]
        except MetadataError as error:
            raise GroupUnavailable(f"groups cannot be listed: {error}") from error

    async def holder(self, group_id: str) -> int | None:
        try:
            found = await self._leases.find(group_id)
        except _FAILURES as error:
            raise _unavailable(group_id, error) from error
        return None if found is None else found.broker_id

    async def _listed(self, group_id: str) -> ListedGroup | None:
        row = await self._store.get(keys.state(group_id))
        if row is None:
            return None
        try:
            root = GroupRoot.decode(row.value)
        except UnknownValueVersion as error:
            _log.error("a group cannot be read; it is left out", group=group_id, error=str(error))
            return None
        if root.kind == DEAD:
            return None
        return ListedGroup(group_id, root.kind, root.state_name, root.protocol_type)

    # Actors

    def _actor(self, group_id: str) -> GroupActor:
        actor = self._actors.get(group_id)
        if actor is None:
            actor = GroupActor(group_id, self._shared)
            self._actors[group_id] = actor
            self._by_segment[keys.segment(group_id)] = actor
        actor.used_ms = self._clock.monotonic_ms()
        return actor

    def _adopt(self, group_id: str) -> None:
        self._actor(group_id).adopt()

    async def _tidy(self) -> None:
        """Forget idle groups now and then."""
        while True:
            await asyncio.sleep(TIDY_INTERVAL_MS / 1000)
            idle_since_ms = self._clock.monotonic_ms() - IDLE_MS
            excess = len(self._actors) - ACTORS_MAX
            by_use = sorted(self._actors.values(), key=lambda actor: actor.used_ms)
            for number, actor in enumerate(by_use):
                if actor.is_idle and (actor.used_ms <= idle_since_ms or number < excess):
                    await self._forget(actor)

    async def _forget(self, actor: GroupActor) -> None:
        del self._actors[actor.group_id]
        del self._by_segment[keys.segment(actor.group_id)]
        await actor.close()
        try:
            await actor.duty.release()
        except MetadataError as error:
            _log.info("a group's lease is left", group=actor.group_id, error=str(error))

    # The watch

    def _on_change(self, changed: ChangeSet) -> None:
        if changed.resync:
            for actor in list(self._actors.values()):
                actor.lose_track()
            self._adoption.look_at_all()
        for change in changed.changes:
            segment, _, rest = change.key[len(keys.GROUPS_PREFIX) :].partition("/")
            if rest.startswith(("offsets/", "blobs/")):
                continue
            told = self._by_segment.get(segment)
            if told is not None:
                self._tell(told, rest, change.version)
            elif rest == keys.LEASE and change.version is None:
                self._adoption.lease_vanished(keys.parse(change.key).group_id)

    def _tell(self, actor: GroupActor, rest: str, version: int | None) -> None:
        if rest == keys.STATE:
            actor.root_changed(version)
        elif rest == keys.LEASE:
            actor.duty.lease_changed(version)
        elif rest == keys.CONFIG:
            actor.config_changed()
        elif rest.startswith(f"{keys.SEEN}/") and version is not None:
            _, broker_id = keys.parse_seen(
                f"{keys.GROUPS_PREFIX}{keys.segment(actor.group_id)}/{rest}"
            )
            if broker_id != self._broker_id:
                actor.duty.digest_changed(broker_id)


def _unavailable(group_id: str, error: Exception) -> GroupUnavailable:
    _log.warning("a group cannot be read", group=group_id, error=str(error))
    return GroupUnavailable(f"group {group_id!r} is not available: {error}")
