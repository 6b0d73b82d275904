"""One group in a broker's memory, kept up to date by what the store's watch tells."""

from __future__ import annotations

from towpath.groups.interface import GroupView
from towpath.groups.settings import GroupSettings
from towpath.groups.store import NOTHING, GroupStore, Stored

UNKNOWABLE = 1 << 64
"""Stands for a version that no write of ours can cover: a delete, or a gap in the watch."""


class CachedGroup:
    """The last known state, and whether something newer was told of since.

    After the store's barrier, a fresh cache is as good as a read. Reads and writes of one group
    take turns; that is the caller's business.
    """

    def __init__(self, group_id: str, store: GroupStore, defaults: GroupSettings) -> None:
        self._group_id = group_id
        self._store = store
        self._defaults = defaults
        self._root_is_old = True
        self._config_is_old = True
        self._is_reading = False
        self._told_version = 0
        """The newest version that the watch told of since the last read began."""
        self.stored: Stored = NOTHING
        self.settings = defaults

    @property
    def is_fresh(self) -> bool:
        """Whether nothing newer was told of, nor is being read."""
        return not (self._root_is_old or self._config_is_old or self._is_reading)

    @property
    def view(self) -> GroupView:
        """The group for others; a dead root is no group."""
        stored = self.stored
        version = None if stored.state is None else stored.version
        return GroupView(stored.state, version, self.settings)

    def root_changed(self, version: int | None) -> None:
        """The watch tells of a root; None: it is deleted."""
        if version is not None and version <= (self.stored.version or 0):
            return
        self._told_version = max(self._told_version, version or UNKNOWABLE)
        self._root_is_old = True

    def config_changed(self) -> None:
        """The watch tells of the group's own settings."""
        self._config_is_old = True

    def lose_track(self) -> None:
        """The watch has a gap, or a write had an unknown outcome."""
        self.root_changed(None)
        self.config_changed()

    async def read(self) -> None:
        """Read what is not fresh. What is told of meanwhile makes it old again."""
        self._is_reading = True
        try:
            await self._read()
        finally:
            self._is_reading = False

    async def _read(self) -> None:
        if self._config_is_old:
            self._config_is_old = False
            try:
                config = await self._store.load_config(self._group_id)
            except BaseException:
                self._config_is_old = True
                raise
            self.settings = self._defaults.with_overrides(config) if config else self._defaults
        if self._root_is_old:
            self._root_is_old = False
            self._told_version = 0
            try:
                self.stored = await self._store.load(self._group_id, self.stored)
            except BaseException:
                self._root_is_old = True
                raise

    def wrote(self, stored: Stored) -> None:
        """A write of ours has succeeded."""
        self.stored = stored
        self._root_is_old = self._told_version > (stored.version or 0)
