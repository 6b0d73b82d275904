"""Who leads a partition, for clients that asked another broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from towpath.cluster.view import View


class NodeFields(Protocol):
    """A message struct for a broker's address; each API has its own."""

    def __init__(self, *, node_id: int, host: str, port: int, rack: str | None) -> None: ...


Node = TypeVar("Node", bound=NodeFields)


def node_endpoints(view: View, broker_ids: Iterable[int], node: type[Node]) -> list[Node]:
    """The addresses of those brokers that are shown."""
    wanted = set(broker_ids)
    return [
        node(node_id=found.broker_id, host=found.host, port=found.port, rack=found.rack)
        for found in view.brokers
        if found.broker_id in wanted
    ]
