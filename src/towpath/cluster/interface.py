"""The cluster as its callers see it; `cluster/membership.py` implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from towpath.cluster.view import View
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
    def view(self, zone: str | None) -> View:
        """What a client of the zone is shown: the live brokers there, or all live brokers if there
        is none or no zone is asked for. Ask again after every wait: a view never changes."""

    def brokers(self) -> Sequence[BrokerRecord]:
        """All live brokers by ascending id; this broker is always among them."""
        return self.view(None).brokers

    def leader(self, stream_id: int) -> int:
        """The stream's broker by rendezvous hash over all live brokers."""
        return self.view(None).leader(stream_id)

    def controller(self) -> int:
        """The broker id shown as controller to clients that ask for no zone."""
        return self.view(None).controller()
