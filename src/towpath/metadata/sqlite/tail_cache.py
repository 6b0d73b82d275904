"""The tails of recently used streams, kept true by the change feed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from towpath.metadata.keys import streams
from towpath.metadata.sqlite.revision import Revision
from towpath.metadata.store import Change, Tail


class TailCache:
    """Least recently used streams leave first.

    Each tail is kept with the revision at which it was read, which may be ahead of the feed:
    revisions up to it must not be applied again.
    """

    def __init__(self, capacity_streams: int) -> None:
        self._capacity_streams = capacity_streams
        self._tails: OrderedDict[int, tuple[Tail, int]] = OrderedDict()

    def get(self, stream_id: int) -> Tail | None:
        """The stream's tail as of the feed's last revision or later; None if unknown."""
        found = self._tails.get(stream_id)
        if found is None:
            return None
        self._tails.move_to_end(stream_id)
        return found[0]

    def put(self, stream_id: int, tail: Tail, revision: int) -> None:
        """Remember a tail that was read at `revision`."""
        self._tails[stream_id] = (tail, revision)
        self._tails.move_to_end(stream_id)
        if len(self._tails) > self._capacity_streams:
            self._tails.popitem(last=False)

    def apply(self, revisions: Iterable[Revision]) -> None:
        """Follow the index keys that the revisions put or deleted. Each comes once, in order."""
        for revision in revisions:
            for change in revision.changes:
                if streams.is_index_entry(change.key):
                    self._apply(revision.number, change)

    def _apply(self, revision: int, change: Change) -> None:
        stream_id, offset_end, cumulative_size = streams.parse_index_entry(change.key)
        found = self._tails.get(stream_id)
        if found is None or revision <= found[1]:
            return
        tail, read_at = found
        if (offset_end, cumulative_size) < (tail.offset_end, tail.cumulative_size):
            return  # An older entry was replaced or removed: the tail stays.
        if change.version is None:
            del self._tails[stream_id]  # What the tail is now only the store knows.
        else:
            # One revision may hold several entries of a stream, so `read_at` stays.
            self._tails[stream_id] = (Tail(offset_end, cumulative_size), read_at)

    def clear(self) -> None:
        """Forget everything."""
        self._tails.clear()
