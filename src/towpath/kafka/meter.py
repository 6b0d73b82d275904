"""Counts requests and their latencies for next to nothing, and passes them on now and then.

A Prometheus counter and histogram take locks and cost some microseconds per request, a tenth of
what the whole request costs. These sums are plain numbers of the event loop's thread; the metrics
lag behind them by at most FLUSH_MS.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from towpath.observe.metrics import Metrics

FLUSH_MS = 250


class Meter:
    """The sums of one API."""

    __slots__ = ("_count", "_dirty", "_histogram", "_on_dirty", "_requests", "_seconds", "_slots",
                 "_upper_bounds")  # fmt: skip

    def __init__(self, metrics: Metrics, api_name: str, on_dirty: Callable[[], None]) -> None:
        self._count = metrics.requests.labels(api_name).inc
        self._histogram = metrics.request_seconds.labels(api_name)
        self._upper_bounds: list[float] = list(self._histogram._upper_bounds)
        self._on_dirty = on_dirty
        self._dirty = False
        self._clear()

    def request(self) -> None:
        """A request has arrived."""
        self._requests += 1
        if not self._dirty:
            self._dirty = True
            self._on_dirty()

    def answered(self, seconds: float) -> None:
        """A request is done, so long after its arrival."""
        self._slots[bisect_left(self._upper_bounds, seconds)] += 1
        self._seconds += seconds
        if not self._dirty:
            self._dirty = True
            self._on_dirty()

    def flush(self) -> None:
        """Pass the sums on. Prometheus's histogram offers no way to add many values at once."""
        if not self._dirty:
            return
        self._count(self._requests)
        self._histogram._sum.inc(self._seconds)
        for bucket, count in zip(self._histogram._buckets, self._slots, strict=True):
            if count:
                bucket.inc(count)
        self._clear()

    def _clear(self) -> None:
        self._requests = 0
        self._seconds = 0.0
        self._slots = [0] * len(self._upper_bounds)
        self._dirty = False
