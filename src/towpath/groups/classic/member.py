"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from towpath.groups.state import GetBlob, PutBlob
from towpath.metadata.keys.json_value import Fields

NO_ASSIGNMENT = b""


@dataclass(frozen=True, slots=True)
class Protocol:
    """An assignor that a member offers, with what it has to tell the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A member as it was when it last joined. `awaits_join` and `owes_sync` are where it stands."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """By preference, the best first."""
    assignment: bytes = NO_ASSIGNMENT
    awaits_join: bool = False
    """It has joined the rebalance that is being prepared."""
    is_new: bool = False
    """It has not yet been part of a generation."""
    owes_sync: bool = False
    """It has not asked for its assignment in this generation."""

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place under an id of its own choice."""
        return self.instance_id is not None

    def supports(self, protocol_name: str) -> bool:
        """Whether it offers the protocol."""
        return any(protocol.name == protocol_name for protocol in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says under this protocol; nothing if it does not offer it."""
        found = (p.metadata for p in self.protocols if p.name == protocol_name)
        return next(found, b"")

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that it prefers; it supports every candidate."""
        return next(p.name for p in self.protocols if p.name in candidates)

    def pack(self, blob: PutBlob) -> dict[str, Any]:
        """The member as fields of the group's root."""
        return {
            "id": self.member_id,
            "instanceId": self.instance_id,
            "clientId": self.client_id,
            "clientHost": self.client_host,
            "sessionTimeoutMs": self.session_timeout_ms,
            "rebalanceTimeoutMs": self.rebalance_timeout_ms,
            "protocols": [[p.name, blob(p.metadata)] for p in self.protocols],
            "assignment": blob(self.assignment) if self.assignment else None,
            "awaitsJoin": self.awaits_join,
            "isNew": self.is_new,
            "owesSync": self.owes_sync,
        }

    @classmethod
    def unpack(cls, fields: Fields, blob: GetBlob) -> Member:
        """The inverse of `pack`."""
        assignment = fields["assignment"]
        return cls(
            member_id=fields["id"],
            instance_id=fields["instanceId"],
            client_id=fields["clientId"],
            client_host=fields["clientHost"],
            session_timeout_ms=fields["sessionTimeoutMs"],
            rebalance_timeout_ms=fields["rebalanceTimeoutMs"],
            protocols=tuple(Protocol(name, blob(ref)) for name, ref in fields["protocols"]),
            assignment=NO_ASSIGNMENT if assignment is None else blob(assignment),
            awaits_join=fields["awaitsJoin"],
            is_new=fields["isNew"],
            owes_sync=fields["owesSync"],
        )
