"""What was decoded lately, by key; what is being decoded is decoded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from towpath.log.object.single_flight import SingleFlight
from towpath.observe.metrics import Metrics

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class DecodedCache(Generic[K, V]):
    """Values bounded by bytes, least recently used out first. `size_of` tells what a value takes.

    The newest stays even if it alone is larger than the limit: whoever needs it will need it again
    at once. With a limit of 0 nothing is kept.
    """

    def __init__(
        self, name: str, max_bytes: int, size_of: Callable[[V], int], metrics: Metrics
    ) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._size_bytes = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._flights: SingleFlight[K, V] = SingleFlight()
        self._hits = metrics.cache_hits.labels(name)
        self._misses = metrics.cache_misses.labels(name)
        metrics.cache_bytes.labels(name).set_function(lambda: self._size_bytes)

    async def get(self, key: K, load: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The value, loaded if it is not there."""
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
            self._hits.inc()
            return found[0]
        self._misses.inc()
        return await self._flights.run(key, lambda: self._load(key, load))

    async def _load(self, key: K, load: Callable[[], Coroutine[Any, Any, V]]) -> V:
        value = await load()
        if self._max_bytes > 0:
            self._keep(key, value)
        return value

    def _keep(self, key: K, value: V) -> None:
        size_bytes = self._size_of(value)
        self._values[key] = (value, size_bytes)
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes and len(self._values) > 1:
            _, (_, oldest_bytes) = self._values.popitem(last=False)
            self._size_bytes -= oldest_bytes
