"""Removing committed offsets: as clients ask for it, when they are too old, and with their topics.

Offsets are removed only if neither they nor their group have changed since they were looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath.groups.interface import Groups
from towpath.groups.settings import CLASSIC
from towpath.groups.state import GroupState
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import (
    ConditionFailed,
    KeyIs,
    KeyValue,
    MetadataStore,
    VersionConflict,
)

DOMAIN = 0
ATTEMPTS_MAX = 20
"""How often a removal is tried again because the group has changed."""
REMOVED_AT_ONCE = 100
"""Offsets that go in one commit; each is a condition and a delete."""
CONSUMER_PROTOCOL_TYPE = "consumer"


async def remove_offsets(
    store: MetadataStore, groups: Groups, group_id: str, wanted: Mapping[str, Sequence[int]]
) -> tuple[ErrorCode, frozenset[str]]:
    """Remove the group's offsets of these partitions, as OffsetDelete does.

    The error for the whole request, and the topics whose offsets stay because members use them.
    """
    for _ in range(ATTEMPTS_MAX):
        view = await groups.view(group_id)
        refusal = _refusal(view.state)
        if refusal or view.state is None:
            return refusal, frozenset()
        used = frozenset(topic for topic in wanted if view.state.subscribes_to(topic))
        doomed = [
            keys.offset(group_id, topic, partition)
            for topic, partitions in wanted.items()
            if topic not in used
            for partition in sorted(set(partitions))
        ]
        if not doomed or await _delete(store, KeyIs(keys.state(group_id), view.version), doomed):
            return ErrorCode.NONE, used
    return ErrorCode.COORDINATOR_NOT_AVAILABLE, frozenset()


def _refusal(group: GroupState | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    speaks_of_topics = group.KIND != CLASSIC or group.protocol_type == CONSUMER_PROTOCOL_TYPE
    if not group.is_empty and not speaks_of_topics:
        return ErrorCode.NON_EMPTY_GROUP  # Nobody can tell which topics the members use.
    return ErrorCode.NONE


async def _delete(store: MetadataStore, root: KeyIs, doomed: Sequence[str]) -> bool:
    """Delete all the keys at once; False if the group has changed."""
    if not store.supports_conditions:
        await store.commit(DOMAIN, deletes=doomed)
        return True
    try:
        await store.commit(DOMAIN, deletes=doomed, expect=[root])
    except ConditionFailed:
        return False
    return True


async def remove_rows(
    store: MetadataStore, rows: Sequence[KeyValue], root: KeyIs | None = None
) -> int:
    """Delete what was read, but nothing that was written since, and only while the group is as it
    was; returns how much. Whoever finds the rest next tries again."""
    removed = 0
    for start in range(0, len(rows), REMOVED_AT_ONCE):
        part = rows[start : start + REMOVED_AT_ONCE]
        if store.supports_conditions:
            removed += await _remove_together(store, part, root)
        else:
            removed += await _remove_each(store, part)
    return removed


async def _remove_together(
    store: MetadataStore, rows: Sequence[KeyValue], root: KeyIs | None
) -> int:
    conditions = [KeyIs(row.key, row.version) for row in rows]
    if root is not None:
        conditions.append(root)
    try:
        await store.commit(DOMAIN, deletes=[row.key for row in rows], expect=conditions)
    except ConditionFailed as error:
        if root in error.failed:
            return 0
        left = [row for row in rows if KeyIs(row.key, row.version) not in error.failed]
        return await _remove_together(store, left, root) if left else 0
    return len(rows)


async def _remove_each(store: MetadataStore, rows: Sequence[KeyValue]) -> int:
    removed = 0
    for row in rows:
        try:
            await store.delete(row.key, expect=row.version)
        except VersionConflict:
            continue
        removed += 1
    return removed
