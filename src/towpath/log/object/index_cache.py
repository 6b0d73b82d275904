"""Recent index entries in memory, each at the version it was read or committed at.

The cache is not authoritative: the metadata watch removes what changed, and emptying it changes no
answer. Ranges do not overlap, so an entry that contains an offset is the entry of that offset.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque

from towpath.log.object.entries import Entry
from towpath.metadata.keys import streams
from towpath.observe.metrics import Metrics


class IndexCache:
    """Entries of all streams, bounded by bytes; the oldest insertion goes first."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._ends: dict[int, list[int]] = {}
        self._entries: dict[int, dict[int, Entry]] = {}
        self._order: deque[tuple[int, int, int]] = deque()
        self._hits = metrics.cache_hits.labels("index")
        self._misses = metrics.cache_misses.labels("index")
        metrics.cache_bytes.labels("index").set_function(lambda: self._size_bytes)

    def find(self, stream_id: int, offset: int) -> Entry | None:
        """The cached entry that contains the offset."""
        ends = self._ends.get(stream_id)
        if ends is not None:
            at = bisect_right(ends, offset)
            if at < len(ends):
                entry = self._entries[stream_id][ends[at]]
                if entry.start <= offset:
                    self._hits.inc()
                    return entry
        self._misses.inc()
        return None

    def add(self, entry: Entry) -> None:
        """Keep an entry, unless a newer version of its key is there already."""
        entries = self._entries.setdefault(entry.stream_id, {})
        known = entries.get(entry.end)
        if known is not None:
            if known.version >= entry.version:
                return
            self._remove(entry.stream_id, entry.end)
            entries = self._entries.setdefault(entry.stream_id, {})
        entries[entry.end] = entry
        insort(self._ends.setdefault(entry.stream_id, []), entry.end)
        self._order.append((entry.stream_id, entry.end, entry.version))
        self._size_bytes += entry.size_bytes
        while self._size_bytes > self._max_bytes and self._order:
            stream_id, end, version = self._order.popleft()
            oldest = self._entries.get(stream_id, {}).get(end)
            if oldest is not None and oldest.version == version:
                self._remove(stream_id, end)

    def changed(self, key: str, version: int | None) -> None:
        """A key of the index was written or deleted: drop what is cached of it if it is older."""
        stream_id, end, _ = streams.parse_index_entry(key)
        known = self._entries.get(stream_id, {}).get(end)
        if known is not None and (version is None or known.version < version):
            self._remove(stream_id, end)

    def drop(self, entry: Entry) -> None:
        """Forget an entry that turned out to be stale."""
        known = self._entries.get(entry.stream_id, {}).get(entry.end)
        if known is not None and known.version <= entry.version:
            self._remove(entry.stream_id, entry.end)

    def clear(self) -> None:
        """Forget everything."""
        self._ends.clear()
        self._entries.clear()
        self._order.clear()
        self._size_bytes = 0

    def _remove(self, stream_id: int, end: int) -> None:
        entries = self._entries[stream_id]
        entry = entries.pop(end)
        ends = self._ends[stream_id]
        del ends[bisect_right(ends, end) - 1]
        self._size_bytes -= entry.size_bytes
        if not entries:
            del self._entries[stream_id], self._ends[stream_id]
