"""The state of a group of the consumer protocol."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from towpath.groups.consumer import stored
from towpath.groups.consumer.assignors.order import names_in_order
from towpath.groups.consumer.member import Member
from towpath.groups.consumer.partitions import NO_PARTITIONS, Partitions, each
from towpath.groups.consumer.stored import BucketCache
from towpath.groups.consumer.timers import timers_of
from towpath.groups.settings import CONSUMER, GroupSettings
from towpath.groups.state import GetBlob, GroupState, PutBlob
from towpath.groups.step import Timer
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields
from towpath.topics.interface import Topics

COMMIT_WITH_EPOCH_SINCE_VERSION = 9
"""The first version of OffsetCommit whose generation may be a member epoch."""

_SEEN = "_seen_topics"


@dataclass(frozen=True)
class ConsumerGroup(GroupState):
    """A group whose coordinator assigns partitions.

    The group's epoch grows with every change that may need another assignment, the assignment's
    epoch follows when a target was made for it, and each member's when it has got there.
    """

    KIND: ClassVar[str] = CONSUMER

    epoch: int = 0
    """0: not yet used."""
    assignment_epoch: int = 0
    members: Mapping[str, Member] = field(default_factory=dict)
    """By member id, in the order in which they came."""
    targets: Mapping[str, Partitions] = field(default_factory=dict)
    """What members shall have; who is not in it, nothing."""
    metadata_hash: int = 0
    """Stands for the topics that members are subscribed to, as they were at this epoch."""
    regexes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The regular expressions of members, with the topics that matched; new ones are not in it."""
    next_place: int = 0
    _buckets: BucketCache = field(default_factory=BucketCache, compare=False, repr=False)

    # Storage

    def pack(self, blob: PutBlob) -> dict[str, Any]:
        count = stored.bucket_count(len(self.members))
        buckets = stored.in_buckets(self.members.values(), count)
        return {
            "epoch": self.epoch,
            "assignmentEpoch": self.assignment_epoch,
            "metadataHash": self.metadata_hash,
            "nextPlace": self.next_place,
            "regexes": blob(stored.encode_regexes(self.regexes)),
            "subscriptions": [blob(self._subscriptions(i, own)) for i, own in enumerate(buckets)],
            "current": [blob(self._current(i, own)) for i, own in enumerate(buckets)],
            "targets": [blob(self._targets(i, own)) for i, own in enumerate(buckets)],
        }

    def _subscriptions(self, number: int, members: list[Member]) -> bytes:
        return self._buckets.encode(
            "subscriptions", number, [*members], lambda: stored.encode_subscriptions(members)
        )

    def _current(self, number: int, members: list[Member]) -> bytes:
        return self._buckets.encode(
            "current", number, [*members], lambda: stored.encode_current(members)
        )

    def _targets(self, number: int, members: list[Member]) -> bytes:
        parts: list[object] = [self.target(member.member_id) for member in members]
        parts += [member.member_id for member in members]
        return self._buckets.encode(
            "targets", number, parts, lambda: stored.encode_targets(members, self.targets)
        )

    @classmethod
    def unpack(cls, fields: Fields, blob: GetBlob) -> Self:
        members: list[Member] = []
        for subscriptions, current in zip(fields["subscriptions"], fields["current"], strict=True):
            members += stored.decode_members(blob(subscriptions), blob(current))
        members.sort(key=lambda member: member.place)
        targets: dict[str, Partitions] = {}
        for name in fields["targets"]:
            targets.update(stored.decode_targets(blob(name)))
        return cls(
            epoch=fields["epoch"],
            assignment_epoch=fields["assignmentEpoch"],
            members={member.member_id: member for member in members},
            targets=targets,
            metadata_hash=fields["metadataHash"],
            regexes=stored.decode_regexes(blob(fields["regexes"])),
            next_place=fields["nextPlace"],
        )

    # What it tells

    @property
    def member_ids(self) -> Sequence[str]:
        return tuple(self.members)

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = all(
            member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()
        )
        return "Stable" if reconciled else "Reconciling"

    @property
    def protocol_type(self) -> str:
        return "consumer"

    def session_timeout_ms(self, member_id: str, settings: GroupSettings) -> int:
        return settings.consumer_session_timeout_ms

    def timers(self, settings: GroupSettings) -> Sequence[Timer]:
        return timers_of(self, settings)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int
    ) -> ErrorCode:
        if epoch < 0 and not self.members:
            # Not a member but a tool, on a group that is not in use.
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if api_version < COMMIT_WITH_EPOCH_SINCE_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.subscribed_names

    def target(self, member_id: str) -> Partitions:
        """What a member shall have."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def static_member(self, instance_id: str) -> Member | None:
        """The member that has this instance id."""
        return self._static_members.get(instance_id)

    def assignor(self, offered: Sequence[str]) -> str:
        """The assignor that most members ask for, else the first that is offered."""
        asked = [member.server_assignor for member in self.members.values()]
        votes = {name: asked.count(name) for name in names_in_order(offered)}
        most = max(votes.values())
        return next(name for name in votes if votes[name] == most) if most else offered[0]

    @cached_property
    def subscribed_names(self) -> frozenset[str]:
        """Every topic that some member is subscribed to, whether it exists or not."""
        lists = {member.topic_names for member in self.members.values()}
        return frozenset().union(*lists, *self.regexes.values())

    @cached_property
    def subscribed_regexes(self) -> frozenset[str]:
        """The regular expressions of all members."""
        return frozenset(
            member.topic_regex for member in self.members.values() if member.topic_regex
        )

    @property
    def unresolved(self) -> frozenset[str]:
        """Regular expressions that are still to be matched with topics."""
        return self.subscribed_regexes - self.regexes.keys()

    @cached_property
    def owned(self) -> frozenset[tuple[uuid.UUID, int]]:
        """Every partition that a member uses or is yet to give up."""
        return frozenset().union(*map(_pairs, self.members.values()))

    def is_owned(self, topic_id: uuid.UUID, number: int) -> bool:
        """Whether a member uses the partition or is yet to give it up."""
        return (topic_id, number) in self.owned

    def has_seen(self, topics: Topics) -> bool:
        """Whether `saw` was told of these very topics, and they have not changed since."""
        return self.__dict__.get(_SEEN) == (topics, topics.changes)

    def saw(self, topics: Topics) -> None:
        """Remember that this state accounts for the topics as they are. Only the broker's memory of
        the state knows it; it spares the heartbeats that follow to look again."""
        self.__dict__[_SEEN] = (topics, topics.changes)

    @cached_property
    def _static_members(self) -> dict[str, Member]:
        return {
            member.instance_id: member
            for member in self.members.values()
            if member.instance_id is not None
        }

    # What can be done to it

    def changed(
        self,
        *,
        epoch: int | None = None,
        assignment_epoch: int | None = None,
        targets: Mapping[str, Partitions] | None = None,
        metadata_hash: int | None = None,
        regexes: Mapping[str, frozenset[str]] | None = None,
    ) -> ConsumerGroup:
        """The group with the same members and these changes."""
        given: dict[str, Any] = {
            "epoch": epoch,
            "assignment_epoch": assignment_epoch,
            "targets": targets,
            "metadata_hash": metadata_hash,
            "regexes": regexes,
        }
        changes: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        new = replace(self, **changes)
        kept = {"owned", "subscribed_regexes", _SEEN}
        self._hand_on(new, kept if regexes is not None else kept | {"subscribed_names"})
        return new

    def with_member(self, member: Member) -> ConsumerGroup:
        """The group with this member, new or in place of its older self."""
        members = {**self.members, member.member_id: member}
        new = replace(self, members=members, next_place=max(self.next_place, member.place + 1))
        old = self.members.get(member.member_id)
        alike = old is not None and old.subscribes_alike(member)
        self._hand_on(new, {_SEEN, "subscribed_names", "subscribed_regexes"} if alike else {_SEEN})
        if "owned" in self.__dict__:
            before = frozenset() if old is None else _pairs(old)
            new.__dict__["owned"] = (self.owned - before) | _pairs(member)
        return new

    def _hand_on(self, new: ConsumerGroup, names: set[str]) -> None:
        """Give the new state what was found out about this one and is true of it, too."""
        new.__dict__.update((name, self.__dict__[name]) for name in names & self.__dict__.keys())

    def without_members(self, member_ids: Collection[str]) -> ConsumerGroup:
        """The group without these members and what they should have had. The epochs stay."""
        return replace(
            self,
            members={key: value for key, value in self.members.items() if key not in member_ids},
            targets={key: value for key, value in self.targets.items() if key not in member_ids},
        )

    def with_replaced(self, old: Member, new: Member) -> ConsumerGroup:
        """The group in which a member takes the place, and the target, of another."""
        target = self.target(old.member_id)
        rest = self.without_members({old.member_id})
        return replace(rest.with_member(new), targets={**rest.targets, new.member_id: target})


def _pairs(member: Member) -> frozenset[tuple[uuid.UUID, int]]:
    return frozenset((*each(member.assigned), *each(member.revoking)))
