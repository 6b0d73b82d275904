"""Known bugs of the group coordinators, for seeds with groups; see `planted.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.faults.simulation.planted_tables import Patch

from towpath.groups import store
from towpath.groups.actor import GroupActor
from towpath.groups.adoption import Adoption
from towpath.groups.classic import join, rebalance
from towpath.groups.consumer import heartbeat, timers
from towpath.groups.consumer.fence import fence
from towpath.groups.consumer.reconcile import reconcile
from towpath.groups.coordinator import GroupCoordinator
from towpath.groups.duty import Duty
from towpath.groups.offsets import writer
from towpath.groups.offsets.writer import OffsetWriter
from towpath.groups.packing import Packer
from towpath.groups.seen import Seen
from towpath.groups.store import GroupStore, Stored
from towpath.groups.timers import Timers
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import ANY, MetadataError, OutcomeUnknown, VersionConflict

_save = GroupStore.save
_end_joining = rebalance.end_joining
_note = Duty.note


def _digests_not_read() -> list[Patch]:
    async def read(self: Any) -> None:
        self._digests.clear()
        self._has_gap = False

    return [(Duty, "_read_digests", read)]


def _digests_not_written() -> list[Patch]:
    return [(Duty, "_plan_digest", lambda self, silence_ms: None)]


def _root_not_compared() -> list[Patch]:
    return [(store, "_expectation", lambda stored: ANY)]


def _offsets_without_condition() -> list[Patch]:
    async def commit(self: Any, accepted: Any, views: Any, alive: Any) -> list[Any]:
        try:
            await self._store.commit(
                writer.DOMAIN, puts=writer._puts(accepted, views), expect=[alive]
            )
        except MetadataError:
            writer._settle(accepted, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            writer._settle(accepted, ErrorCode.NONE)
        return []

    return [(OffsetWriter, "_commit", commit)]


def _unknown_commit_acknowledged() -> list[Patch]:
    real = OffsetWriter._commit

    async def commit(self: Any, accepted: Any, views: Any, alive: Any) -> list[Any]:
        inner, self._store = self._store, _Optimist(self._store)
        try:
            return await real(self, accepted, views, alive)
        finally:
            self._store = inner

    return [(OffsetWriter, "_commit", commit)]


class _Optimist:
    """A store whose writes are believed to have happened when nobody knows."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def commit(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await self._inner.commit(*args, **kwargs)
        except OutcomeUnknown:
            return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _blobs_deleted_first() -> list[Patch]:
    async def save(
        self: Any, group_id: str, old: Stored, state: Any, writer: str, conditions: Any = ()
    ) -> Stored:
        if state is not None and old.blobs:
            named = Packer(old.version or 0, old.blobs).root(state, writer).blobs
            await self.collect(group_id, [name for name in old.blobs if name not in named])
        return await _save(self, group_id, old, state, writer, conditions)

    return [(GroupStore, "save", save)]


def _new_blobs_swept() -> list[Patch]:
    async def sweep(self: Any, group_id: str) -> int:
        found = await self._store.get(keys.state(group_id))
        rows = await self._scan(keys.blobs_prefix(group_id))
        named = set() if found is None else set(keys.GroupRoot.decode(found.value).blobs)
        names = [row.key.rpartition("/")[2] for row in rows]
        await self.collect(group_id, [name for name in names if name not in named])
        return len(names)

    return [(GroupStore, "sweep", sweep)]


def _blobs_never_collected() -> list[Patch]:
    async def collect(self: Any, group_id: str, names: Any) -> None:
        return

    return [(GroupStore, "collect", collect)]


def _lease_not_checked() -> list[Patch]:
    async def due(self: Any) -> list[Any]:
        self._timers_are_due = False
        found = self._timers.due(self._now())
        if not found:
            self._schedule()
        return list(found)

    return [(Duty, "_due_timers", due)]


def _timers_not_restarted() -> list[Patch]:
    return [(Timers, "restart", lambda self, now_ms: None)]


def _waiting_not_alive() -> list[Patch]:
    return [
        (Seen, "begin_wait", lambda self, member_id: None),
        (Seen, "end_wait", lambda self, member_id, now_ms: None),
    ]


def _sessions_not_ended() -> list[Patch]:
    real = Timers.due

    def due(self: Any, now_ms: int) -> list[Any]:
        return [timer for timer in real(self, now_ms) if timer.member_id is None]

    return [(Timers, "due", due)]


def _orphans_not_adopted() -> list[Patch]:
    async def look(self: Any, group_id: str) -> None:
        return

    return [(Adoption, "_look", look)]


def _generation_not_raised() -> list[Patch]:
    def end(group: Any, env: Any) -> Any:
        ended = _end_joining(group, env)
        return replace(ended, generation=group.generation)

    return [(rebalance, "end_joining", end)]


def _owners_not_asked() -> list[Patch]:
    def reconcile_alone(member: Any, target: Any, epoch: int, is_owned: Any, reported: Any) -> Any:
        return reconcile(member, target, epoch, lambda topic_id, number: False, reported)

    return [(heartbeat, "reconcile", reconcile_alone)]


def _epoch_not_raised() -> list[Patch]:
    def quietly(group: Any, member_ids: Any, env: Any) -> Any:
        return fence(group, member_ids, env).changed(epoch=group.epoch)

    return [(heartbeat, "fence", quietly), (timers, "fence", quietly)]


def _view_without_barrier() -> list[Patch]:
    async def view(self: Any) -> Any:
        if not self._cache.is_fresh:
            async with self._turn:
                await self._freshen()
        return self._cache.view

    return [(GroupActor, "view", view)]


def _root_changes_ignored() -> list[Patch]:
    return [(GroupActor, "root_changed", lambda self, version: None)]


def _unknown_save_believed() -> list[Patch]:
    async def save(self: Any, old: Any, state: Any, writer: str, conditions: Any) -> Any:
        try:
            new = await self._shared.groups.save(self.group_id, old, state, writer, conditions)
        except VersionConflict:
            self._cache.lose_track()
            return None
        except OutcomeUnknown:
            self._cache.lose_track()
            return replace(old, state=state, writer=writer)
        self._cache.wrote(new)
        return new

    return [(GroupActor, "_save", save)]


def _written_per_heartbeat() -> list[Patch]:
    def note(self: Any, member_id: str) -> None:
        _note(self, member_id)
        if not self.is_holder:
            self._digest_is_due = True
            self._wake()

    return [(Duty, "note", note)]


def _static_member_not_fenced() -> list[Patch]:
    def renamed(group: Any, old_id: str, new_id: str) -> Any:
        member = replace(group.members[old_id], member_id=new_id, awaits_join=False)
        return group.with_member(member)

    return [(join, "_renamed", renamed)]


def _leases_kept() -> list[Patch]:
    async def forget(self: Any, actor: Any) -> None:
        return

    return [(GroupCoordinator, "_forget", forget)]


GROUP_BUGS: dict[str, Callable[[], list[Patch]]] = {
    "digests-not-read": _digests_not_read,
    "digests-not-written": _digests_not_written,
    "root-not-compared": _root_not_compared,
    "offsets-without-condition": _offsets_without_condition,
    "unknown-commit-acknowledged": _unknown_commit_acknowledged,
    "blobs-deleted-first": _blobs_deleted_first,
    "new-blobs-swept": _new_blobs_swept,
    "blobs-never-collected": _blobs_never_collected,
    "lease-not-checked": _lease_not_checked,
    "timers-not-restarted": _timers_not_restarted,
    "waiting-not-alive": _waiting_not_alive,
    "sessions-not-ended": _sessions_not_ended,
    "orphans-not-adopted": _orphans_not_adopted,
    "generation-not-raised": _generation_not_raised,
    "owners-not-asked": _owners_not_asked,
    "epoch-not-raised": _epoch_not_raised,
    "view-without-barrier": _view_without_barrier,
    "root-changes-ignored": _root_changes_ignored,
    "unknown-save-believed": _unknown_save_believed,
    "written-per-heartbeat": _written_per_heartbeat,
    "static-member-not-fenced": _static_member_not_fenced,
    "leases-kept": _leases_kept,
}
"""The bugs by name. Each is looked for in seeds with groups only."""
