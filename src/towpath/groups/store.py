"""Groups in the metadata store: loading, saving by compare-and-set, and what must go.

Blobs are written before the root that names them. A blob's name carries the version of the root
that its writer had read, and only the successor of that version can name it for the first time;
so a blob whose base is below the root's version and which the root does not name is garbage for
ever. To keep this true for the first root, whose predecessor has no version, a group that needs
blobs at once gets a dead root first.

A deleted group's root becomes dead by compare-and-set; that is the moment of the deletion. Then
offsets and blobs go, then the root. Whoever meets a dead root first finishes this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.groups.packing import Packer, unpack
from towpath.groups.state import GroupState
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import DEAD, GroupConfig, GroupRoot
from towpath.metadata.store import (
    ABSENT,
    ConditionFailed,
    Expect,
    KeyIs,
    KeyValue,
    MetadataError,
    MetadataStore,
    Put,
    VersionConflict,
    prefix_end,
)

DOMAIN = 0
READS_AT_ONCE = 64
LOAD_ATTEMPTS = 10
"""How often a root may change while its blobs are read."""
COMMIT_MAX_KEYS = 200
COMMIT_MAX_BYTES = 1 << 20
"""Blobs that are written together; stores limit the size of a request."""
PAGE_KEYS = 500
RESERVED = "/reserved"
"""Tells the writer's mark on a reservation from that on the root that it is for."""


class GroupDamaged(MetadataError):
    """A root names a blob that does not exist, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A group as it is in the store; `version` is None if there is no root."""

    state: GroupState | None = None
    version: int | None = None
    writer: str | None = None
    is_dead: bool = False
    """There is a root, but of a group that is deleted."""
    blobs: Mapping[str, bytes] = field(default_factory=dict, repr=False)


NOTHING = Stored()


class GroupStore:
    """Reads and writes groups. Every method is safe beside other brokers that do the same."""

    def __init__(self, store: MetadataStore, kinds: Mapping[str, type[GroupState]]) -> None:
        self._store = store
        self._kinds = kinds

    # Reading

    async def load(self, group_id: str, known: Stored = NOTHING) -> Stored:
        """The group now. Blobs that `known` has are not read again."""
        for _ in range(LOAD_ATTEMPTS):
            row = await self._store.get(keys.state(group_id))
            if row is None:
                return NOTHING
            if row.version == known.version:
                return known
            root = GroupRoot.decode(row.value)
            if root.kind == DEAD:
                return Stored(version=row.version, writer=root.writer, is_dead=True)
            blobs = await self._load_blobs(group_id, root.blobs, known.blobs)
            if blobs is not None:
                state = unpack(root, blobs, self._kinds)
                return Stored(state, row.version, root.writer, blobs=blobs)
            again = await self._store.get(keys.state(group_id))
            if again is not None and again.version == row.version:
                raise GroupDamaged(f"group {group_id!r} names blobs that do not exist")
        raise GroupDamaged(f"group {group_id!r} changes faster than it can be read")

    async def load_config(self, group_id: str) -> Mapping[str, str]:
        """The group's own settings."""
        row = await self._store.get(keys.config(group_id))
        return {} if row is None else GroupConfig.decode(row.value).config

    async def _load_blobs(
        self, group_id: str, names: Sequence[str], known: Mapping[str, bytes]
    ) -> dict[str, bytes] | None:
        """The blobs by name; None if one is gone, because the root has changed."""
        blobs = {name: known[name] for name in names if name in known}
        missing = [name for name in names if name not in known]
        for start in range(0, len(missing), READS_AT_ONCE):
            part = missing[start : start + READS_AT_ONCE]
            rows = await asyncio.gather(
                *(self._store.get(keys.blob(group_id, name)) for name in part)
            )
            for name, row in zip(part, rows, strict=True):
                if row is None:
                    return None
                blobs[name] = row.value
        return blobs

    # Writing

    async def save(
        self,
        group_id: str,
        old: Stored,
        state: GroupState | None,
        writer: str,
        conditions: Sequence[KeyIs] = (),
    ) -> Stored:
        """Replace `old` by `state` (None deletes the group) and return what is stored now.

        Raises VersionConflict when the group is not `old` any more, or (where the store has
        conditions, and unless the group is made or deleted) one of the conditions does not hold;
        nothing is changed then. After OutcomeUnknown the root's `writer` tells whether the change
        was made. Blobs that are not named any more are left to `collect`.
        """
        if state is None:
            return await self._delete(group_id, old, writer)
        if old.is_dead:
            await self._purge(group_id, old)
        packer = Packer(old.version or 0, old.blobs)
        root = packer.root(state, writer)
        if old.version is None and packer.blobs:
            old = await self._reserve(group_id, writer)
            packer = Packer(old.version or 0, {})
            root = packer.root(state, writer)
        new = [
            Put(keys.blob(group_id, n), packer.blobs[n]) for n in root.blobs if n not in old.blobs
        ]
        await self._put_blobs(new)
        version = await self._put_root(group_id, root, _expectation(old), conditions)
        return Stored(state, version, writer, blobs=packer.blobs)

    async def collect(self, group_id: str, names: Iterable[str]) -> None:
        """Delete blobs that no root can name any more."""
        wanted = [keys.blob(group_id, name) for name in names]
        for start in range(0, len(wanted), COMMIT_MAX_KEYS):
            await self._store.commit(DOMAIN, deletes=wanted[start : start + COMMIT_MAX_KEYS])

    async def sweep(self, group_id: str) -> int:
        """Delete the blobs that writers left behind, and finish a deletion; returns how many blobs.

        The blobs are listed before the root is read: one that is listed was written by somebody who
        had read a root that is older than, or is, the one found now.
        """
        names = [
            row.key.rpartition("/")[2] for row in await self._scan(keys.blobs_prefix(group_id))
        ]
        found = await self._store.get(keys.state(group_id))
        if found is not None:
            root = GroupRoot.decode(found.value)
            if root.kind == DEAD:
                stored = Stored(version=found.version, writer=root.writer, is_dead=True)
                await self.finish(group_id, stored)
                return len(names)
            named = set(root.blobs)
            names = [n for n in names if n not in named and keys.blob_base(n) < found.version]
        await self.collect(group_id, names)
        return len(names)

    async def finish(self, group_id: str, dead: Stored) -> None:
        """Remove what a deleted group has left, the root last. Whoever makes the group anew
        meanwhile has done it."""
        try:
            await self._purge(group_id, dead)
            await self._store.delete(keys.state(group_id), expect=_expectation(dead))
        except VersionConflict:
            return

    async def _delete(self, group_id: str, old: Stored, writer: str) -> Stored:
        if old.version is None or old.is_dead:
            return old
        version = await self._put_root(group_id, GroupRoot(DEAD, writer), _expectation(old))
        return Stored(version=version, writer=writer, is_dead=True)

    async def _reserve(self, group_id: str, writer: str) -> Stored:
        """A dead root, so that the first blobs have a version to be based on."""
        root = GroupRoot(DEAD, f"{writer}{RESERVED}")
        version = await self._put_root(group_id, root, ABSENT)
        return Stored(version=version, writer=root.writer, is_dead=True)

    async def _put_root(
        self, group_id: str, root: GroupRoot, expect: Expect, conditions: Sequence[KeyIs] = ()
    ) -> int:
        key, value = keys.state(group_id), root.encode()
        if not conditions or not self._store.supports_conditions or not isinstance(expect, int):
            return await self._store.put(key, value, expect=expect)
        wanted = (KeyIs(key, expect), *conditions)
        try:
            done = await self._store.commit(DOMAIN, puts=[Put(key, value)], expect=wanted)
        except ConditionFailed:
            raise VersionConflict(key, None) from None
        return done.revision

    async def _put_blobs(self, puts: list[Put]) -> None:
        part: list[Put] = []
        size_bytes = 0
        for put in puts:
            if part and (
                len(part) >= COMMIT_MAX_KEYS or size_bytes + len(put.value) > COMMIT_MAX_BYTES
            ):
                await self._store.commit(DOMAIN, puts=part)
                part, size_bytes = [], 0
            part.append(put)
            size_bytes += len(put.value)
        if part:
            await self._store.commit(DOMAIN, puts=part)

    async def _purge(self, group_id: str, dead: Stored) -> None:
        """Delete offsets and blobs of a group whose root is dead, at this version.

        A page is listed before the root is seen to be still dead, so everything on it is older than
        any successor of the group. Blobs that are based on the dead root itself stay: somebody
        writes them who is about to make the group anew.
        """
        assert dead.version is not None
        offsets, blobs = keys.offsets_prefix(group_id), keys.blobs_prefix(group_id)
        for start, end in (
            (offsets, prefix_end(offsets)),
            (blobs, keys.blobs_based_on(group_id, dead.version)),
        ):
            while rows := await self._store.scan(start, end, limit=PAGE_KEYS):
                if not await self._is_at(group_id, dead):
                    raise VersionConflict(keys.state(group_id), None)
                await self._delete_rows(group_id, dead, rows)

    async def _delete_rows(self, group_id: str, dead: Stored, rows: list[KeyValue]) -> None:
        if self._store.supports_conditions:
            condition = KeyIs(keys.state(group_id), dead.version)
            for start in range(0, len(rows), COMMIT_MAX_KEYS):
                part = [row.key for row in rows[start : start + COMMIT_MAX_KEYS]]
                try:
                    await self._store.commit(DOMAIN, deletes=part, expect=[condition])
                except ConditionFailed:
                    raise VersionConflict(keys.state(group_id), None) from None
            return
        for row in rows:
            try:
                await self._store.delete(row.key, expect=row.version)
            except VersionConflict:
                continue

    async def _is_at(self, group_id: str, stored: Stored) -> bool:
        row = await self._store.get(keys.state(group_id))
        return row is not None and row.version == stored.version

    async def _scan(self, prefix: str) -> list[KeyValue]:
        rows: list[KeyValue] = []
        start, end = prefix, prefix_end(prefix)
        while page := await self._store.scan(start, end, limit=PAGE_KEYS):
            rows += page
            start = page[-1].key + "\0"
        return rows


def _expectation(stored: Stored) -> Expect:
    return ABSENT if stored.version is None else stored.version
