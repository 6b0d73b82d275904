"""Batches in memory: those of own flushes, so that tailing consumers read no object, and those read
from objects a moment ago."""

from __future__ import annotations

from collections import OrderedDict

from towpath.objects.store import Buffer
from towpath.observe.metrics import Metrics

ENTRY_OVERHEAD_BYTES = 200


class RangeCache:
    """Whole batches by `(walId, position in the object)`, least recently used out first."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._batches: OrderedDict[tuple[bytes, int], Buffer] = OrderedDict()
        self._hits = metrics.cache_hits.labels("range")
        self._misses = metrics.cache_misses.labels("range")
        metrics.cache_bytes.labels("range").set_function(lambda: self._size_bytes)

    def get(self, wal_id: bytes, position: int) -> Buffer | None:
        """The batch at this place, if it is cached."""
        key = (wal_id, position)
        batch = self._batches.get(key)
        if batch is None:
            self._misses.inc()
            return None
        self._batches.move_to_end(key)
        self._hits.inc()
        return batch

    def add(self, wal_id: bytes, position: int, batch: Buffer) -> None:
        """Keep a batch. The buffer must never change from now on."""
        key = (wal_id, position)
        if key in self._batches:
            return
        self._batches[key] = batch
        self._size_bytes += len(batch) + ENTRY_OVERHEAD_BYTES
        while self._size_bytes > self._max_bytes:
            _, oldest = self._batches.popitem(last=False)
            self._size_bytes -= len(oldest) + ENTRY_OVERHEAD_BYTES

    def clear(self) -> None:
        """Forget everything."""
        self._batches.clear()
        self._size_bytes = 0
