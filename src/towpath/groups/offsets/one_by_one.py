"""Commits of offsets on a store without conditions: a compare-and-set for each offset.

The old values are read before the group is looked at, and are replaced only if they are still the
same: if anybody of a later generation has committed meanwhile, the commit is checked again and
refused. Several offsets of one commit may then have been written in part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from towpath.groups.offsets.commit import OffsetCommit
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.store import ABSENT, Expect, MetadataError, MetadataStore, VersionConflict

ATTEMPTS_MAX = 20
GROUPS_AT_ONCE = 64

_log = structlog.get_logger(__name__)

Check = Callable[[OffsetCommit], Awaitable[bool]]
"""Whether the commit's group accepts it now; it is settled if not."""


async def write_one_by_one(
    store: MetadataStore, commits: Sequence[OffsetCommit], check: Check
) -> None:
    """Settle all commits; those of one group in their order."""
    by_group: dict[str, list[OffsetCommit]] = {}
    for commit in commits:
        by_group.setdefault(commit.group_id, []).append(commit)
    groups = iter(by_group.values())

    async def work() -> None:
        for group in groups:
            for commit in group:
                await _write(store, commit, check)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(len(by_group), GROUPS_AT_ONCE)):
            tasks.create_task(work())


async def _write(store: MetadataStore, commit: OffsetCommit, check: Check) -> None:
    try:
        for _ in range(ATTEMPTS_MAX):
            expected = [await _state_of(store, put.key) for put in commit.puts]
            if not await check(commit):
                return
            if await _put_all(store, commit, expected):
                commit.settle(ErrorCode.NONE)
                return
    except MetadataError as error:
        _log.warning("offsets cannot be written", group=commit.group_id, error=str(error))
    commit.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def _state_of(store: MetadataStore, key: str) -> Expect:
    row = await store.get(key)
    return ABSENT if row is None else row.version


async def _put_all(store: MetadataStore, commit: OffsetCommit, expected: Sequence[Expect]) -> bool:
    """False if somebody else has changed one of the offsets."""
    for put, expect in zip(commit.puts, expected, strict=True):
        try:
            await store.put(put.key, put.value, expect=expect)
        except VersionConflict:
            return False
    return True
