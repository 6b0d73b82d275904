"""The brokers that a client is shown, and which of them it is sent to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from towpath.cluster.rendezvous import Rendezvous
from towpath.metadata.keys.cluster import BrokerRecord

REPLICAS_SHOWN_MAX = 16
"""Racks beyond this many are not shown as having a replica of a partition."""

RendezvousOf = Callable[[Sequence[BrokerRecord]], Rendezvous]


def rendezvous_over(brokers: Sequence[BrokerRecord]) -> Rendezvous:
    """The answers for these brokers."""
    return Rendezvous(broker.broker_id for broker in brokers)


class View:
    """Some of the live brokers, at least one, by ascending id. It never changes.

    Every broker serves every partition, so who leads one is a hint. Where the brokers name racks,
    each partition is shown with one replica per rack, so that a consumer with `client.rack` finds
    one near it; the replica of a rack is the broker that would lead if there were no others.
    """

    def __init__(
        self, brokers: Sequence[BrokerRecord], rendezvous_of: RendezvousOf = rendezvous_over
    ) -> None:
        """`rendezvous_of` may remember what it made for which brokers."""
        self.brokers = brokers
        self._rendezvous = rendezvous_of(brokers)
        self._rack_of = {broker.broker_id: broker.rack for broker in brokers}
        racks = sorted({rack for rack in self._rack_of.values() if rack})
        self._in_rack = {
            rack: rendezvous_of([broker for broker in brokers if broker.rack == rack])
            for rack in racks[:REPLICAS_SHOWN_MAX]
        }
        self._replicas: dict[tuple[int, ...], list[int]] = {}

    def leader(self, stream_id: int) -> int:
        """The broker id shown as the stream's leader."""
        return self._rendezvous.owner(stream_id)

    def replicas(self, stream_id: int) -> list[int]:
        """The broker ids shown as the stream's replicas, the leader first. Nobody may change the
        list: streams with the same replicas share it."""
        leader = self.leader(stream_id)
        home = self._rack_of[leader]
        others = (
            brokers.owner(stream_id) for rack, brokers in self._in_rack.items() if rack != home
        )
        key = (leader, *others)
        return self._replicas.setdefault(key, list(key))

    def nearest(self, stream_id: int, rack: str) -> int | None:
        """The stream's replica in the rack; None if no shown broker is there."""
        brokers = self._in_rack.get(rack)
        return None if brokers is None else brokers.owner(stream_id)

    def controller(self) -> int:
        """The broker id shown as controller."""
        return self.brokers[0].broker_id

    def get(self, broker_id: int) -> BrokerRecord | None:
        """The broker of this id, if it is shown."""
        if broker_id not in self._rack_of:
            return None
        return next(broker for broker in self.brokers if broker.broker_id == broker_id)
