"""Counts requests and their latencies for next to nothing, and passes them on now and then.

A Prometheus counter and histogram take locks and cost some microseconds per request, a tenth of
what the whole request costs. These sums are plain numbers of the event loop's thread; the metrics
lag behind them by at most FLUSH_MS.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left

from prometheus_client import Counter, Histogram

FLUSH_MS = 250


class Meter:
    """A counter and a histogram of seconds, fed from one event loop."""

    __slots__ = ("_amount", "_count", "_dirty", "_histogram", "_seconds", "_slots",
                 "_upper_bounds")  # fmt: skip

    def __init__(self, counter: Counter, histogram: Histogram) -> None:
        self._count = counter.inc
        self._histogram = histogram
        self._upper_bounds: list[float] = list(histogram._upper_bounds)
        self._dirty = False
        self._clear()

    def count(self, amount: int = 1) -> None:
        """Add to the counter."""
        self._amount += amount
        if not self._dirty:
            self._flush_later()

    def observe(self, seconds: float) -> None:
        """Add to the histogram."""
        self._slots[bisect_left(self._upper_bounds, seconds)] += 1
        self._seconds += seconds
        if not self._dirty:
            self._flush_later()

    def flush(self) -> None:
        """Pass the sums on. Prometheus's histogram offers no way to add many values at once."""
        if not self._dirty:
            return
        self._count(self._amount)
        self._histogram._sum.inc(self._seconds)
        for bucket, count in zip(self._histogram._buckets, self._slots, strict=True):
            if count:
                bucket.inc(count)
        self._clear()

    def _flush_later(self) -> None:
        self._dirty = True
        asyncio.get_running_loop().call_later(FLUSH_MS / 1000, self.flush)

    def _clear(self) -> None:
        self._amount = 0
        self._seconds = 0.0
        self._slots = [0] * len(self._upper_bounds)
        self._dirty = False
