"""Removes offsets that are too old or whose topic is gone, groups that have neither members nor
offsets, and blobs that brokers have left which died or lost a race while they changed a group.

An offset's retention counts from when its group lost its last member, or from the commit where the
group has members or never had any; offsets of topics that members use do not expire. All of it as
in Kafka (KIP-211). Any broker may sweep at any time: nothing is removed that has changed since it
was looked at.
"""

from __future__ import annotations

import asyncio

import structlog

from towpath.gc.summary import Summary
from towpath.groups.deletion import delete_group
from towpath.groups.interface import Groups
from towpath.groups.kinds import KINDS
from towpath.groups.listing import group_ids
from towpath.groups.offsets.reader import rows
from towpath.groups.offsets.remover import DOMAIN, remove_rows
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.store import GroupDamaged, GroupStore
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.keys.offsets import CommittedOffset
from towpath.metadata.store import (
    ABSENT,
    ConditionFailed,
    KeyIs,
    KeyValue,
    MetadataStore,
    VersionConflict,
    prefix_end,
)
from towpath.runtime import Clock
from towpath.topics.interface import Topics

REMOVED_PER_ROUND = 5_000
"""After removing so many offsets a round ends; the next one follows soon."""

_log = structlog.get_logger(__name__)


class OffsetSweeper:
    """Looks through the offsets of all groups."""

    def __init__(
        self,
        store: MetadataStore,
        groups: Groups,
        topics: Topics,
        clock: Clock,
        settings: GroupSettings,
    ) -> None:
        self._store = store
        self._groups = groups
        self._states = GroupStore(store, KINDS)
        self._topics = topics
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> Summary:
        """One pass over the groups, or a part of one if there is much to remove."""
        examined = removed = 0
        async for group_id in group_ids(self._store):
            await asyncio.sleep(0)  # Reads of an embedded store do not let others run.
            examined += 1
            try:
                removed += await self._sweep(group_id)
            except (UnknownValueVersion, GroupDamaged) as error:
                _log.error("offsets of a group cannot be swept", group=group_id, error=str(error))
            if removed >= REMOVED_PER_ROUND:
                return Summary(examined, removed, more=True)
        return Summary(examined, removed)

    async def _sweep(self, group_id: str) -> int:
        """Remove what is due of one group; returns how many offsets went."""
        await self._states.sweep(group_id)
        group = await self._states.load(group_id)
        if group.state is None or group.version is None:
            return 0
        prefix = keys.offsets_prefix(group_id)
        found = [
            (row, CommittedOffset.decode(row.value))
            async for row in rows(self._store, prefix, prefix_end(prefix))
            if not offset_keys.is_mark(row.key)
        ]
        if not all(self._is_live(row, offset) for row, offset in found):
            await self._topics.refresh()
        due = [row for row, offset in found if self._is_due(row, offset, group.state)]
        root = KeyIs(keys.state(group_id), group.version)
        removed = await remove_rows(self._store, due, root)
        if removed == len(found) and group.state.is_empty:
            await self._remove_group(group_id, root)
        return removed

    def _is_live(self, row: KeyValue, offset: CommittedOffset) -> bool:
        topic = self._topics.get(_topic_of(row))
        return topic is not None and topic.topic_id == offset.topic_id

    def _is_due(self, row: KeyValue, offset: CommittedOffset, group: GroupState) -> bool:
        if not self._is_live(row, offset):
            return True
        since_ms = group.retention_from_ms(offset.commit_timestamp_ms)
        if since_ms is None or group.subscribes_to(_topic_of(row)):
            return False
        now_ms = self._clock.now_ms()
        if offset.expire_timestamp_ms is not None:
            return now_ms >= offset.expire_timestamp_ms
        return now_ms - since_ms >= self._settings.offsets_retention_ms

    # Groups without anything

    async def _remove_group(self, group_id: str, root: KeyIs) -> None:
        """Remove the group, unless somebody has joined it or committed to it meanwhile."""
        if not self._store.supports_conditions:
            await self._groups.apply(group_id, delete_group)
            return
        mark = await self._mark(group_id)
        prefix = keys.offsets_prefix(group_id)
        if len(await self._store.scan(prefix, prefix_end(prefix), limit=2)) > 1:
            return
        try:
            await self._store.commit(DOMAIN, deletes=[root.key, mark.key], expect=[root, mark])
        except ConditionFailed:
            return
        _log.info("a group without members and offsets is removed", group=group_id)

    async def _mark(self, group_id: str) -> KeyIs:
        """The mark as it is before the offsets are looked at: a commit to a group without members
        puts it again."""
        key = offset_keys.mark(group_id)
        row = await self._store.get(key)
        if row is not None:
            return KeyIs(key, row.version)
        try:
            return KeyIs(key, await self._store.put(key, offset_keys.MARKED, expect=ABSENT))
        except VersionConflict as conflict:
            return KeyIs(key, conflict.actual_version)


def _topic_of(row: KeyValue) -> str:
    return row.key.rsplit("/", 2)[-2]
