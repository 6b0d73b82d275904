"""The change feed: every revision once and in order, to the tail cache and to the watchers."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.metadata.sqlite.reader import Reader
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.sqlite.tail_cache import TailCache
from towpath.metadata.watchers import Watchers

PULL_REVISIONS = 256
"""Revisions read by one query."""


class Feed:
    """Knows the last revision that this process has seen. Lives on the event loop's thread.

    Asking for the revisions after it is one search for the end of a table, as cheap as asking
    SQLite whether anything changed at all (`PRAGMA data_version`), and it is exact: commits of
    this process, which arrive without a query, and writes that change no key cost nothing more.
    """

    def __init__(self, reader: Reader, watchers: Watchers, tails: TailCache) -> None:
        self._reader = reader
        self._watchers = watchers
        self._tails = tails
        self._seen = reader.head()

    def pull(self) -> None:
        """Deliver every revision that any process committed before this call.

        Raises StoreUnavailable; the next pull goes on where this one stopped.
        """
        while True:
            revisions = self._reader.revisions_after(self._seen, PULL_REVISIONS)
            if not revisions:
                return
            self._deliver(revisions, resync=revisions[0].number != self._seen + 1)
            if len(revisions) < PULL_REVISIONS:
                return

    def committed_here(self, revisions: Sequence[Revision]) -> None:
        """Deliver revisions of this process, after those of others that came before them.

        Raises StoreUnavailable if those cannot be read; nothing is then delivered.
        """
        if revisions[-1].number <= self._seen:
            return  # A pull was faster.
        if revisions[0].number == self._seen + 1:
            self._deliver(revisions, resync=False)
        else:
            self.pull()

    def _deliver(self, revisions: Sequence[Revision], resync: bool) -> None:
        self._seen = revisions[-1].number
        if resync:
            self._tails.clear()
        self._tails.apply(revisions)
        changes = [change for revision in revisions for change in revision.changes]
        self._watchers.deliver(changes, resync=resync)
