"""What a soak does, and the bounds within which it must end up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

TOPIC = "soak"
RECORD_BYTES_MIN = 32
RSS_GROWTH_MAX_BYTES = 256 << 20
"""How much larger than before a broker's memory may be once the load is gone. It has caches of 80
MiB in a soak; buffers of the C library that are not given back make up the rest."""
HANDLES_GROWTH_MAX = 64
"""How many more files a broker may have open once the load is gone."""
BROKER_SETTINGS = {"range_cache_bytes": "67108864", "index_cache_bytes": "16777216"}
"""Small caches, so that growth can be told from caching."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of one soak."""

    seconds: float
    records_per_second: int = 20_000
    brokers: int = 2
    kill_every_seconds: float = 10.0
    """0 for no kills."""
    partitions: int = 8
    producers: int = 2
    record_bytes: int = 100
    seed: int = 1

    def to_dict(self) -> dict[str, Any]:
        """As JSON sees it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**values)
