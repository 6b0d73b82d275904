"""One member of a consumer-protocol group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from towpath.groups.consumer.partitions import Partitions, no_partitions

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""The epoch of a static member that left for a while: its place is kept until the session ends."""
NO_EPOCH = -1


class MemberState(Enum):
    """How far a member has come towards its target; the values are what is stored."""

    STABLE = "stable"
    """It has its target assignment of its epoch."""
    UNREVOKED_PARTITIONS = "unrevoked"
    """It must give up partitions before it goes to the next epoch."""
    UNRELEASED_PARTITIONS = "unreleased"
    """It waits for partitions that other members still have."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member: who it is, what it wants, and what it has."""

    member_id: str
    place: int
    """Members with a smaller number joined earlier."""
    instance_id: str | None = None
    """Set for static members."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    """How long it may take to give up partitions."""
    server_assignor: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    """Empty: none."""
    epoch: int = JOINING_EPOCH
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=no_partitions)
    """What it may use."""
    revoking: Partitions = field(default_factory=no_partitions)
    """What it must give up, and nobody else may use until it has."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has everything of the target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def told(
        self,
        *,
        client_id: str,
        client_host: str,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = None,
        topic_names: Iterable[str] | None = None,
        topic_regex: str | None = None,
    ) -> Member:
        """The member after a heartbeat that tells these things; what is None or -1 stays. The same
        object if nothing is new."""
        told: dict[str, Any] = {
            "client_id": client_id,
            "client_host": client_host,
            "instance_id": instance_id,
            "rack_id": rack_id,
            "rebalance_timeout_ms": None if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            "server_assignor": server_assignor,
            "topic_names": None if topic_names is None else frozenset(topic_names),
            "topic_regex": topic_regex,
        }
        news = {
            name: value
            for name, value in told.items()
            if value is not None and value != getattr(self, name)
        }
        return replace(self, **news) if news else self

    def subscribes_alike(self, other: Member) -> bool:
        """Whether both are subscribed to the same topics in the same way."""
        return self.topic_names == other.topic_names and self.topic_regex == other.topic_regex
