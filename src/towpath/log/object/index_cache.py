"""Recent index entries in memory, each at the version it was read or committed at.

The cache is not authoritative: the metadata watch removes what changed, and emptying it changes no
answer. An entry that was replaced meanwhile may be in it for a while; it can be read until its
objects are gone.

No cached range lies inside another one, so the first entry that ends above an offset is the only
one that needs a look. Compaction lets entries grow and never shrink: of two ranges of which one
contains the other, the larger is the newer.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict

from towpath.log.object.entries import Entry
from towpath.metadata.keys import streams
from towpath.observe.metrics import Metrics


class IndexCache:
    """Entries of all streams, bounded by bytes; the oldest insertion goes first."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._ends: dict[int, list[int]] = {}
        """Of each stream's entries, in order."""
        self._entries: OrderedDict[tuple[int, int], Entry] = OrderedDict()
        """By stream and end, the oldest insertion first."""
        self._hits = metrics.cache_hits.labels("index")
        self._misses = metrics.cache_misses.labels("index")
        metrics.cache_bytes.labels("index").set_function(lambda: self._size_bytes)

    def find(self, stream_id: int, offset: int) -> Entry | None:
        """The cached entry that contains the offset."""
        entry = self._first_above(stream_id, offset)
        if entry is not None and entry.start <= offset:
            self._hits.inc()
            return entry
        self._misses.inc()
        return None

    def add(self, entry: Entry) -> None:
        """Keep an entry, unless a newer version of its key is there already, or an entry that
        replaced it. Entries that it replaced go."""
        stream_id = entry.stream_id
        known = self._entries.get((stream_id, entry.end))
        if known is not None:
            if known.version >= entry.version:
                return
            self._remove(stream_id, entry.end)
        above = self._first_above(stream_id, entry.end)
        if above is not None and above.start <= entry.start:
            return
        self._remove_inside(entry)
        self._entries[stream_id, entry.end] = entry
        insort(self._ends.setdefault(stream_id, []), entry.end)
        self._size_bytes += entry.size_bytes
        while self._size_bytes > self._max_bytes and self._entries:
            self._remove(*next(iter(self._entries)))

    def changed(self, key: str, version: int | None) -> None:
        """A key of the index was written or deleted: drop what is cached of it if it is older."""
        stream_id, end, _ = streams.parse_index_entry(key)
        known = self._entries.get((stream_id, end))
        if known is not None and (version is None or known.version < version):
            self._remove(stream_id, end)

    def forget(self, stream_id: int) -> None:
        """Forget a stream's entries."""
        for end in self._ends.pop(stream_id, ()):
            self._size_bytes -= self._entries.pop((stream_id, end)).size_bytes

    def clear(self) -> None:
        """Forget everything."""
        self._ends.clear()
        self._entries.clear()
        self._size_bytes = 0

    def _first_above(self, stream_id: int, offset: int) -> Entry | None:
        """The first entry that ends above the offset."""
        ends = self._ends.get(stream_id)
        if ends is None:
            return None
        at = bisect_right(ends, offset)
        return self._entries[stream_id, ends[at]] if at < len(ends) else None

    def _remove_inside(self, entry: Entry) -> None:
        """Drop the entries whose ranges lie inside this one's."""
        ends = self._ends.get(entry.stream_id)
        if ends is None:
            return
        last = bisect_right(ends, entry.end)
        first = last
        while first and self._entries[entry.stream_id, ends[first - 1]].start >= entry.start:
            first -= 1
        for end in ends[first:last]:
            self._remove(entry.stream_id, end)

    def _remove(self, stream_id: int, end: int) -> None:
        self._size_bytes -= self._entries.pop((stream_id, end)).size_bytes
        ends = self._ends[stream_id]
        del ends[bisect_right(ends, end) - 1]
        if not ends:
            del self._ends[stream_id]
