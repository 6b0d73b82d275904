"""A classic group at one moment: phase, generation, members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

from towpath.groups.classic.member import Member
from towpath.groups.classic.subscription import CONSUMER, subscribed_topics
from towpath.groups.settings import CLASSIC, GroupSettings
from towpath.groups.state import GetBlob, GroupState, PutBlob
from towpath.groups.step import Timer
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields

NO_GENERATION = -1


class Phase(Enum):
    """Where the group stands, by Kafka's names. A dead group has no state at all here."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """Members are to join."""
    COMPLETING = "CompletingRebalance"
    """All have joined; the leader is to bring the assignment."""
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """The first rebalance of an empty group waits for more members, in rounds."""

    delay_ms: int
    remaining_ms: int
    number: int = 0
    """Of the round."""
    has_new_member: bool = False
    """Whether somebody came in this round; then there is another one."""

    def pack(self) -> list[Any]:
        """As a field of the root."""
        return [self.delay_ms, self.remaining_ms, self.number, self.has_new_member]


@dataclass(frozen=True)
class ClassicGroup(GroupState):
    """The group. Changes are made by `replace`; a mapping that is part of it is never changed."""

    KIND: ClassVar[str] = CLASSIC

    phase: Phase = Phase.EMPTY
    generation: int = 0
    protocol_name: str | None = None
    group_protocol_type: str | None = None
    """None for a group that has only ever stored offsets."""
    leader_id: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    """By id, in the order in which they came."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """Ids given to members that have not joined with them yet; their session time-outs in ms."""
    initial: InitialDelay | None = None
    """While the first rebalance of an empty group is prepared."""
    wait_ms: int = 0
    """How long members are waited for: until all have joined, or have asked for assignments."""
    wait_number: int = 0
    """Tells waits of one generation apart."""
    since_ms: int = 0
    """Wall-clock time of the last change of phase."""

    # What every group tells

    @property
    def member_ids(self) -> Sequence[str]:
        return tuple(self.members)

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    @property
    def is_empty(self) -> bool:
        """As in Kafka, a group that all have left is not empty before its rebalance ends."""
        return self.phase is Phase.EMPTY

    @property
    def epoch(self) -> int:
        return self.generation

    @property
    def state_name(self) -> str:
        return self.phase.value

    @property
    def protocol_type(self) -> str:
        return self.group_protocol_type or ""

    def session_timeout_ms(self, member_id: str, settings: GroupSettings) -> int:
        return self.members[member_id].session_timeout_ms

    def timers(self, settings: GroupSettings) -> Sequence[Timer]:
        from towpath.groups.classic.expiry import timers

        return timers(self)

    # Questions about members

    @cached_property
    def static_ids(self) -> Mapping[str, str]:
        """Member id by instance id."""
        members = self.members.values()
        return {m.instance_id: m.member_id for m in members if m.instance_id is not None}

    def is_leader(self, member_id: str) -> bool:
        """Whether the member is the one who assigns."""
        return self.leader_id == member_id

    @property
    def awaiting_count(self) -> int:
        """How many members have joined the rebalance that is being prepared."""
        return sum(member.awaits_join for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """Whether nobody is waited for."""
        return not self.pending and all(member.awaits_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether a member that offers these protocols fits in."""
        if self.phase is Phase.EMPTY:
            return bool(protocol_type and names)
        members = self.members.values()
        return self.group_protocol_type == protocol_type and any(
            all(member.supports(name) for member in members) for name in names
        )

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether there is such a member, and not another one in its place."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def with_member(self, member: Member) -> ClassicGroup:
        """The group with the member in it, at its old place if it had one."""
        return replace(self, members={**self.members, member.member_id: member})

    # Offsets and deletion

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int
    ) -> ErrorCode:
        if epoch < 0 and self.phase is Phase.EMPTY:
            return ErrorCode.NONE
        if epoch >= 0 or member_id or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
            if epoch != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif self.phase is not Phase.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        completing = self.phase is Phase.COMPLETING
        return ErrorCode.REBALANCE_IN_PROGRESS if completing else ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers."""
        return self.group_protocol_type == CONSUMER

    @cached_property
    def topics(self) -> frozenset[str] | None:
        """What the members have subscribed to; None if that cannot be known."""
        if not self.uses_consumer_protocol:
            return None
        if self.members and self.protocol_name is None:
            return None
        found: set[str] = set()
        for member in self.members.values():
            if member.is_new:
                continue  # As in Kafka, its topics count from its first generation on.
            subscribed = subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return None
            found.update(subscribed)
        return frozenset(found)

    def retention_from_ms(self, commit_timestamp_ms: int) -> int | None:
        if self.group_protocol_type is None:
            return commit_timestamp_ms
        if self.phase is Phase.EMPTY:
            return self.since_ms
        knows_topics = self.uses_consumer_protocol and self.topics is not None
        return commit_timestamp_ms if knows_topics and self.phase is Phase.STABLE else None

    def subscribes_to(self, topic: str) -> bool:
        if self.topics is None:
            return self.uses_consumer_protocol
        return topic in self.topics

    # In the store

    def pack(self, blob: PutBlob) -> dict[str, Any]:
        return {
            "phase": self.phase.value,
            "generation": self.generation,
            "protocolName": self.protocol_name,
            "protocolType": self.group_protocol_type,
            "leader": self.leader_id,
            "members": [member.pack(blob) for member in self.members.values()],
            "pending": dict(self.pending),
            "initial": None if self.initial is None else self.initial.pack(),
            "waitMs": self.wait_ms,
            "waitNumber": self.wait_number,
            "since": self.since_ms,
        }

    @classmethod
    def unpack(cls, fields: Fields, blob: GetBlob) -> ClassicGroup:
        members = [Member.unpack(Fields(packed), blob) for packed in fields["members"]]
        initial = fields["initial"]
        return cls(
            phase=Phase(fields["phase"]),
            generation=fields["generation"],
            protocol_name=fields["protocolName"],
            group_protocol_type=fields["protocolType"],
            leader_id=fields["leader"],
            members={member.member_id: member for member in members},
            pending=fields["pending"],
            initial=None if initial is None else InitialDelay(*initial),
            wait_ms=fields["waitMs"],
            wait_number=fields["waitNumber"],
            since_ms=fields["since"],
        )
