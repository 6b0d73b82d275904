"""Zones: a client that names its own in its `client.id` is shown the brokers there and no others.

The form is `zone_id=<zone>,key=value,...`. It is a wish, not a rule: a client of a zone without a
live broker, or of none, is shown all brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from towpath.cluster.rendezvous import Rendezvous
from towpath.cluster.view import View
from towpath.metadata.keys.cluster import BrokerRecord

CLIENT_ID_CHARS_MAX = 1024
"""A longer `client.id` is taken to name no zone."""

CLIENT_IDS_REMEMBERED = 1024
"""Client ids whose zone is remembered."""

ZONE_KEY = "zone_id"


def zone_of(client_id: str | None) -> str | None:
    """The zone that a `client.id` names, None if it names none.

    It is read as pairs `key=value` between commas; the first `zone_id` counts, wherever it stands,
    and parts of any other form are passed over.
    """
    if client_id is None or len(client_id) > CLIENT_ID_CHARS_MAX:
        return None
    return _parsed(client_id)


@lru_cache(maxsize=CLIENT_IDS_REMEMBERED)
def _parsed(client_id: str) -> str | None:
    for pair in client_id.split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip() == ZONE_KEY:
            return value.strip() or None
    return None


class Zones:
    """The views of one fixed, non-empty set of live brokers, by the zone asked for."""

    def __init__(self, brokers: Sequence[BrokerRecord]) -> None:
        self._rendezvous: dict[tuple[int, ...], Rendezvous] = {}
        self.all = View(brokers, self._rendezvous_of)
        self._views = {
            zone: View([b for b in brokers if b.zone_id == zone], self._rendezvous_of)
            for zone in sorted({b.zone_id for b in brokers if b.zone_id})
        }

    def view(self, zone: str | None) -> View:
        """The brokers of the zone, or all if it has none or none is asked for."""
        return self.all if zone is None else self._views.get(zone, self.all)

    def _rendezvous_of(self, brokers: Sequence[BrokerRecord]) -> Rendezvous:
        """One rendezvous, with one cache, for each set of brokers: a zone is often one rack."""
        broker_ids = tuple(broker.broker_id for broker in brokers)
        if broker_ids not in self._rendezvous:
            self._rendezvous[broker_ids] = Rendezvous(broker_ids)
        return self._rendezvous[broker_ids]
