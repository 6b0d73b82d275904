"""A member of a classic group, which remembers what the broker told it last."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tests.integration.groups_golden.connection import Pending
from tests.integration.groups_golden.scene import Peer, Scene

from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest
from towpath.kafka.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN_LAST, SYNC_LAST, HEARTBEAT_LAST, LEAVE_LAST = 9, 5, 4, 5
MEMBER_ID_REQUIRED = 79
SESSION_MS = 30_000
REBALANCE_MS = 60_000
METADATA = {"range": b"meta"}
"""Too short to be taken for a real subscription. Kafka tries to read those of the protocol type
`consumer`; longer bytes that are none can stop its coordinator from ever answering."""
NO_BYTES: dict[str, bytes] = {}


def subscription(*topics: str, version: int = 1) -> bytes:
    """What a consumer of these topics sends as its metadata: Kafka's ConsumerProtocolSubscription
    without user data and, from version 1 on, without owned partitions."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    owned = struct.pack(">i", 0) if version >= 1 else b""
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1) + owned


class Member:
    """One consumer of the classic protocol. Every method sends one request and records it."""

    def __init__(
        self, scene: Scene, name: str, *, instance: str | None = None, group: str | None = None
    ) -> None:
        self.peer: Peer = scene.peer(name)
        self.group = group or scene.group
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def renewed(self) -> Member:
        """Forget what the broker told it, as after a restart."""
        self.member_id, self.generation = "", -1
        return self

    def join_request(
        self,
        protocols: Mapping[str, bytes] | None = None,
        *,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        member_id: str | None = None,
        reason: str | None = None,
    ) -> JoinGroupRequest:
        """A JoinGroup with the member's id, or with another."""
        offered = METADATA if protocols is None else protocols
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.member_id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in offered.items()],
            reason=reason,
        )

    def join(self, *args: Any, version: int = JOIN_LAST, **fields: Any) -> Any:
        """JoinGroup that is answered at once."""
        return self.joined(self.peer.send(self.join_request(*args, **fields), version))

    def park_join(self, *args: Any, version: int = JOIN_LAST, **fields: Any) -> Pending:
        """JoinGroup that waits for other members."""
        return self.peer.park(self.join_request(*args, **fields), version)

    def joined(self, pending: Pending) -> Any:
        """The answer to a JoinGroup; its member id and generation are kept."""
        answer = self.peer.finish(pending)
        if answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if answer.error_code == 0:
            self.generation = answer.generation_id
        return answer

    def sync_request(
        self,
        assignments: Mapping[str, bytes] = NO_BYTES,
        *,
        generation: int | None = None,
        member_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncGroupRequest:
        """A SyncGroup with what the member knows, or with other values."""
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=what)
                for to, what in assignments.items()
            ],
        )

    def sync(self, *args: Any, version: int = SYNC_LAST, **fields: Any) -> Any:
        """SyncGroup that is answered at once."""
        return self.peer.ask(self.sync_request(*args, **fields), version)

    def park_sync(self, *args: Any, version: int = SYNC_LAST, **fields: Any) -> Pending:
        """SyncGroup that waits for the leader's."""
        return self.peer.park(self.sync_request(*args, **fields), version)

    def heartbeat(
        self,
        *,
        generation: int | None = None,
        member_id: str | None = None,
        version: int = HEARTBEAT_LAST,
    ) -> Any:
        """Heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id if member_id is None else member_id,
            group_instance_id=self.instance,
        )
        return self.peer.ask(request, version)

    def leave(self, *, member_id: str | None = None, version: int = LEAVE_LAST) -> Any:
        """LeaveGroup of this member alone."""
        own = self.member_id if member_id is None else member_id
        request = LeaveGroupRequest(group_id=self.group)
        if version < 3:
            request.member_id = own
        else:
            request.members = [MemberIdentity(member_id=own, group_instance_id=self.instance)]
        return self.peer.ask(request, version)

    def leave_many(self, *members: MemberIdentity, version: int = LEAVE_LAST) -> Any:
        """LeaveGroup of several members."""
        return self.peer.ask(LeaveGroupRequest(group_id=self.group, members=list(members)), version)


def enter(member: Member, *args: Any, **fields: Any) -> Any:
    """Both steps of a first join of a dynamic member that is answered at once."""
    member.join(*args, **fields)
    return member.join(*args, **fields)


def settle(leader: Member, *followers: Member, **fields: Any) -> None:
    """SyncGroup of all members, the leader's last; everybody gets its own name as assignment."""
    waiting = [(member, member.park_sync(**fields)) for member in followers]
    assignments = {m.member_id: f"for {m.peer.name}".encode() for m in (leader, *followers)}
    leader.sync(assignments, **fields)
    for member, pending in waiting:
        member.peer.finish(pending)


def together(leader: Member, *others: Member, **fields: Any) -> None:
    """Bring members into one stable group, the first of them its leader."""
    enter(leader, **fields)
    settle(leader)
    present = [leader]
    for member in others:
        member.join(**fields)
        pending = member.park_join(**fields)
        waiting = [(m, m.park_join(**fields)) for m in present[1:]]
        leader.join(**fields)
        for m, p in [*waiting, (member, pending)]:
            m.joined(p)
        present.append(member)
        settle(leader, *present[1:])
