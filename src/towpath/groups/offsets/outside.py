"""Commits by programs that are neither members of a group nor clients of a broker.

They write what a broker writes for a consumer that assigns partitions to itself: the group must
have no members, and comes into being if there is none. The write depends on the group being still
as it was when it was looked at, so nobody who joins meanwhile is overruled; the store must support
conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from towpath.errors import TowpathError
from towpath.groups.kinds import KINDS
from towpath.groups.offsets.simple import simple_group
from towpath.groups.state import GroupState
from towpath.groups.store import GroupStore, Stored
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.keys.offsets import NO_EPOCH, CommittedOffset
from towpath.metadata.store import (
    ConditionFailed,
    KeyIs,
    MetadataStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    VersionConflict,
)
from towpath.runtime import Runtime

DOMAIN = 0
ATTEMPTS_MAX = 20
"""How often a commit is tried again because its group has changed."""
NOBODY = ""
"""The member id of a commit from outside."""
API_VERSION = 9
"""The version of OffsetCommit that such a commit stands for."""


class GroupInUse(TowpathError):
    """The group has members, or does not take the commit for another reason."""


async def check_group(store: MetadataStore, group_id: str) -> None:
    """Raises GroupInUse if a commit from outside would be refused now."""
    _check(group_id, (await GroupStore(store, KINDS).load(group_id)).state)


async def commit_outside(
    store: MetadataStore,
    group_id: str,
    topic: str,
    topic_id: UUID,
    offsets: Mapping[int, int],
    runtime: Runtime,
) -> None:
    """Commit offsets of a topic's partitions for the group, all or none. Raises GroupInUse,
    and MetadataError, after which it may be repeated."""
    groups = GroupStore(store, KINDS)
    now_ms = runtime.clock.now_ms()
    prefix = keys.topic_offsets_prefix(group_id, topic)
    puts = [
        Put(
            offset_keys.key_under(prefix, partition),
            CommittedOffset(offset, "", now_ms, topic_id).encode(),
        )
        for partition, offset in sorted(offsets.items())
    ]
    puts.append(Put(offset_keys.mark(group_id), offset_keys.MARKED))
    for _ in range(ATTEMPTS_MAX):
        group = await _existing(groups, group_id, runtime)
        if group is None:
            continue
        _check(group_id, group.state)
        try:
            await store.commit(
                DOMAIN, puts=puts, expect=[KeyIs(keys.state(group_id), group.version)]
            )
        except ConditionFailed:
            continue
        return
    raise StoreUnavailable(f"others keep changing group {group_id!r}")


async def _existing(groups: GroupStore, group_id: str, runtime: Runtime) -> Stored | None:
    """The group, which is made if there is none; None if somebody else was faster."""
    found = await groups.load(group_id)
    if found.state is not None:
        return found
    made = simple_group(runtime.clock.now_ms())
    try:
        return await groups.save(group_id, found, made, str(runtime.uuid4()))
    except (VersionConflict, OutcomeUnknown):
        return None


def _check(group_id: str, group: GroupState | None) -> None:
    if group is None:
        return
    refusal = group.check_commit(NOBODY, None, NO_EPOCH, API_VERSION)
    if refusal is ErrorCode.NONE:
        return
    count = len(group.member_ids)
    raise GroupInUse(
        f"group {group_id!r} is {group.state_name} with {count} member{'' if count == 1 else 's'} "
        f"({refusal.name}): only a group without members takes offsets from outside"
    )
