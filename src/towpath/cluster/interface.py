"""The cluster as its callers see it; `cluster/membership.py` implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from towpath.metadata.keys.cluster import BrokerRecord


class Cluster(ABC):
    """Live brokers, from a cache that a watch feeds."""

    cluster_id: str
    broker_id: int
    """This broker's own id."""

    @abstractmethod
    async def refresh(self) -> None:
        """After this, lookups see every change committed before the call."""

    @abstractmethod
    def brokers(self) -> Sequence[BrokerRecord]:
        """Live brokers by ascending id; this broker is always among them."""

    @abstractmethod
    def leader(self, stream_id: int) -> int:
        """The broker id shown as the stream's leader: rendezvous hash over the live brokers."""

    @abstractmethod
    def controller(self) -> int:
        """The broker id shown as controller."""
