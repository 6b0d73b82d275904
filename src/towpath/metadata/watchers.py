"""The watches of one client of a metadata store, and the calls to them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from towpath.metadata.store import Change, ChangeSet, Watch, WatchCallback

logger = logging.getLogger(__name__)


class PrefixWatch(Watch):
    """A watch on the keys under one prefix."""

    def __init__(self, owner: Watchers, prefix: str, callback: WatchCallback) -> None:
        self._owner = owner
        self.prefix = prefix
        self.callback = callback
        self.active = True

    def cancel(self) -> None:
        self.active = False
        self._owner.forget(self)


class Watchers:
    """Calls each watch for the changes under its prefix, on the caller's thread and in order."""

    def __init__(self) -> None:
        self._watches: list[PrefixWatch] = []

    def add(self, prefix: str, callback: WatchCallback) -> PrefixWatch:
        """A new watch for the changes delivered from now on."""
        watch = PrefixWatch(self, prefix, callback)
        self._watches.append(watch)
        return watch

    def forget(self, watch: PrefixWatch) -> None:
        """Drop a cancelled watch."""
        if watch in self._watches:
            self._watches.remove(watch)

    def cancel_all(self) -> None:
        """No callback is called again."""
        for watch in tuple(self._watches):
            watch.cancel()

    def deliver(self, changes: Sequence[Change], *, resync: bool = False) -> None:
        """Give the changes to every watch they concern, and a resync to all.

        A callback may add or cancel watches. One that raises breaks its own promise; that is
        logged and must not keep the others from their changes.
        """
        for watch in tuple(self._watches):
            prefix = watch.prefix
            relevant = tuple(change for change in changes if change.key.startswith(prefix))
            if not watch.active or not (relevant or resync):
                continue
            try:
                watch.callback(ChangeSet(relevant, resync))
            except Exception:
                logger.exception("a watch callback on %r raised", prefix)
