"""Commits of offsets, all that wait at a broker in one write.

While one write is under way the next one gathers, so that a hundred commits cost hardly more than
one. Each is checked against its group as it is now, and the write is conditional on those groups
being still the same: a commit of a generation that has passed can never be written late, whatever
became of this broker in between. Commits of a group whose root has changed are checked again.

The write is also conditional on this broker's registration as it was when the request came: a
broker that was stopped for so long that the others take it for dead must not write what its clients
have long since overtaken elsewhere.

A write whose outcome is unknown is not repeated; its clients are told that it failed and decide for
themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import structlog

from towpath.errors import GroupUnavailable
from towpath.groups.interface import Groups, GroupView
from towpath.groups.offsets.commit import OffsetCommit
from towpath.groups.offsets.one_by_one import write_one_by_one
from towpath.groups.offsets.simple import create_simple
from towpath.groups.registration import Registration
from towpath.groups.settings import CLASSIC
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys import offsets as offset_keys
from towpath.metadata.store import (
    Condition,
    ConditionFailed,
    KeyIs,
    MetadataError,
    MetadataStore,
    Put,
)

DOMAIN = 0
WAITING_MAX = 20_000
"""Commits that may wait; more are refused."""
WRITE_MAX_KEYS = 1_000
"""Offsets in one write, unless a single request has more."""
ATTEMPTS_MAX = 20
"""How often a commit is checked again because its group has changed."""

_log = structlog.get_logger(__name__)


class OffsetWriter:
    """The queue of one broker. There is a task only while something waits."""

    def __init__(self, store: MetadataStore, groups: Groups, registration: Registration) -> None:
        self._store = store
        self._groups = groups
        self._registration = registration
        self._waiting: deque[OffsetCommit] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, commit: OffsetCommit) -> None:
        """Take a commit, which is settled later; commits are written in the order in which they
        come."""
        if self._closed or len(self._waiting) >= WAITING_MAX:
            commit.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        commit.alive = self._registration()
        self._waiting.append(commit)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="offset-writer")

    async def close(self) -> None:
        """Write what waits, and accept no more."""
        self._closed = True
        if self._worker is not None:
            await self._worker

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch = self._take()
                try:
                    again = await self._write(batch)
                except Exception:  # noqa: BLE001 - those who wait are told; the next ones go on.
                    _log.exception("committing offsets failed")
                    _settle(batch, ErrorCode.UNKNOWN_SERVER_ERROR)
                else:
                    self._waiting.extendleft(reversed(again))
        finally:
            self._worker = None

    def _take(self) -> list[OffsetCommit]:
        """The oldest commits that fit into one write."""
        batch = [self._waiting.popleft()]
        left = WRITE_MAX_KEYS - len(batch[0].puts)
        while self._waiting and len(self._waiting[0].puts) <= left:
            batch.append(self._waiting.popleft())
            left -= len(batch[-1].puts)
        return batch

    async def _write(self, batch: Sequence[OffsetCommit]) -> list[OffsetCommit]:
        """Settle the commits, but for those that are returned: they have to be tried again."""
        alive = self._registration()
        _settle((c for c in batch if c.alive != alive), ErrorCode.NOT_COORDINATOR)
        batch = [commit for commit in batch if commit.alive == alive]
        if alive is None or not batch:
            _settle(batch, ErrorCode.NOT_COORDINATOR)
            return []
        if not self._store.supports_conditions:
            await write_one_by_one(self._store, batch, self._check)
            return []
        views = await self._views(batch)
        accepted = [c for c in batch if self._is_accepted(c, views.get(c.group_id))]
        return await self._commit(accepted, views, alive) if accepted else []

    # Checking

    async def _views(self, batch: Sequence[OffsetCommit]) -> dict[str, GroupView]:
        """The groups of the commits, as far as they can be read. What this broker remembers of a
        group is good enough to accept commits, because the write depends on it, but not to refuse
        any."""
        by_group: dict[str, list[OffsetCommit]] = {}
        for commit in batch:
            by_group.setdefault(commit.group_id, []).append(commit)
        views: dict[str, GroupView] = {}
        for group_id, commits in by_group.items():
            view = self._groups.remembered(group_id)
            if view is None or not all(_is_accepted_by(view, commit) for commit in commits):
                makes_group = any(commit.makes_group for commit in commits)
                view = await self._view(group_id, makes_group)
            if view is not None:
                views[group_id] = view
        return views

    async def _view(self, group_id: str, makes_group: bool) -> GroupView | None:
        """The group now, which is made if need be; None if the store fails."""
        try:
            view = await self._groups.view(group_id)
            for _ in range(ATTEMPTS_MAX):
                if view.state is not None or not makes_group:
                    return view
                await self._groups.apply(group_id, create_simple)
                view = await self._groups.view(group_id)
        except GroupUnavailable:
            return None
        return None

    def _is_accepted(self, commit: OffsetCommit, view: GroupView | None) -> bool:
        """Whether the group takes the commit, which is settled if not. A member of the classic
        protocol is alive if it commits."""
        if view is None:
            commit.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return False
        refusal = commit.check(view.state)
        if refusal:
            commit.settle(refusal)
            return False
        if commit.member_id and view.state is not None and view.state.KIND == CLASSIC:
            self._groups.seen(commit.group_id, commit.member_id)
        return True

    async def _check(self, commit: OffsetCommit) -> bool:
        view = await self._view(commit.group_id, commit.makes_group)
        return self._is_accepted(commit, view)

    # Writing

    async def _commit(
        self, accepted: list[OffsetCommit], views: Mapping[str, GroupView], alive: KeyIs
    ) -> list[OffsetCommit]:
        roots = {
            commit.group_id: KeyIs(keys.state(commit.group_id), views[commit.group_id].version)
            for commit in accepted
        }
        try:
            await self._store.commit(
                DOMAIN, puts=_puts(accepted, views), expect=[alive, *roots.values()]
            )
        except ConditionFailed as error:
            return _again(accepted, roots, error.failed)
        except MetadataError as error:
            _log.warning("offsets cannot be written", commits=len(accepted), error=str(error))
            _settle(accepted, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            _settle(accepted, ErrorCode.NONE)
        return []


def _is_accepted_by(view: GroupView, commit: OffsetCommit) -> bool:
    """Whether what is remembered accepts the commit; never once the group was seen to change."""
    return view.state is not None and not commit.attempts and not commit.check(view.state)


def _puts(accepted: Sequence[OffsetCommit], views: Mapping[str, GroupView]) -> list[Put]:
    """What is to be written; of several commits of one partition the last one counts."""
    puts: dict[str, Put] = {}
    for commit in accepted:
        for put in commit.puts:
            puts[put.key] = put
        state = views[commit.group_id].state
        if state is not None and state.is_empty:
            mark = offset_keys.mark(commit.group_id)
            puts[mark] = Put(mark, offset_keys.MARKED)
    return list(puts.values())


def _again(
    accepted: Sequence[OffsetCommit], roots: Mapping[str, KeyIs], failed: Sequence[Condition]
) -> list[OffsetCommit]:
    """The commits that have to be tried again: nothing of them was written. Those whose group keeps
    changing are settled at last."""
    again = []
    for commit in accepted:
        commit.attempts += roots[commit.group_id] in failed
        if commit.attempts >= ATTEMPTS_MAX:
            commit.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            again.append(commit)
    return again


def _settle(commits: Iterable[OffsetCommit], outcome: ErrorCode) -> None:
    for commit in commits:
        commit.settle(outcome)
