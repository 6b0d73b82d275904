"""Rendezvous hashing: which broker is shown as a stream's leader.

Every broker computes the same answer from the set of live brokers alone, and a broker that comes or
goes moves only the streams it gains or loses. The hash must never change: brokers of two releases
have to agree during an upgrade.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

CACHED_STREAMS_MAX = 200_000
"""Answers that are remembered; beyond it all are forgotten and computed again."""

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def mix64(number: int) -> int:
    """One step of splitmix64: a bijection of 64-bit numbers that spreads every bit."""
    z = (number + _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def key_hash(name: str) -> int:
    """The place of a name (a group's, say) among the stream ids; it must never change either."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def weight(broker_id: int, stream_id: int) -> int:
    """The weight of a broker for a stream; no two brokers have the same weight for one stream."""
    return mix64(mix64(stream_id) ^ mix64(broker_id))


class Rendezvous:
    """The answers for one fixed, non-empty set of brokers."""

    def __init__(self, broker_ids: Iterable[int]) -> None:
        self._brokers = [(mix64(broker_id), broker_id) for broker_id in sorted(set(broker_ids))]
        if not self._brokers:
            raise ValueError("rendezvous needs at least one broker")
        self._cache: dict[int, int] = {}

    def owner(self, stream_id: int) -> int:
        """The broker of the highest weight."""
        found = self._cache.get(stream_id)
        if found is not None:
            return found
        if len(self._brokers) == 1:
            return self._brokers[0][1]
        mixed = mix64(stream_id)
        owner = max((mix64(mixed ^ salt), broker_id) for salt, broker_id in self._brokers)[1]
        if len(self._cache) >= CACHED_STREAMS_MAX:
            self._cache.clear()
        self._cache[stream_id] = owner
        return owner
