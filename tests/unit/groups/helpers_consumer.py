"""Groups of the consumer protocol without a store: topics in memory, and members that talk."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.groups.consumer.heartbeat import HeartbeatAnswer, heartbeat, idle_answer
from towpath.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, Member
from towpath.groups.consumer.partitions import NO_PARTITIONS, Partitions, partitions_of
from towpath.groups.consumer.request import Heartbeat, check_request
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Env
from towpath.topics.interface import NewTopic, Topic, Topics, TopicSettings

GROUP_ID = "g"
SETTINGS = TopicSettings(
    max_message_bytes=1,
    retention_ms=-1,
    retention_bytes=-1,
    log_append_time=False,
    compact=False,
    delete=True,
    timestamp_before_max_ms=0,
    timestamp_after_max_ms=0,
)


class MemoryTopics(Topics):
    """Topics that tests make and remove."""

    def __init__(self, **partitions: int) -> None:
        self.known: dict[str, Topic] = {}
        self._numbers = itertools.count(1)
        self._changes = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, partitions: int) -> uuid.UUID:
        """Create a topic, or give it more partitions; its id."""
        old = self.known.get(name)
        number = next(self._numbers)
        topic_id = uuid.UUID(int=number << 64 | number) if old is None else old.topic_id
        self.known[name] = Topic(name, topic_id, number, partitions, {}, SETTINGS, number, 0)
        self._changes += 1
        return topic_id

    def remove(self, name: str) -> None:
        """Delete a topic."""
        del self.known[name]
        self._changes += 1

    def id(self, name: str) -> uuid.UUID:
        """A topic's id."""
        return self.known[name].topic_id

    def partitions(self, **numbers: Iterable[int]) -> Partitions:
        """A set of partitions by topic name."""
        return partitions_of((self.id(name), found) for name, found in numbers.items())

    async def refresh(self) -> None:
        pass

    @property
    def changes(self) -> int:
        return self._changes

    def get(self, name: str) -> Topic | None:
        return self.known.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return next((topic for topic in self.known.values() if topic.topic_id == topic_id), None)

    def get_by_number(self, number: int) -> Topic | None:
        return next((topic for topic in self.known.values() if topic.number == number), None)

    def all(self) -> Iterable[Topic]:
        return [self.known[name] for name in sorted(self.known)]

    async def create(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        raise NotImplementedError

    async def delete(self, topic: Topic) -> None:
        raise NotImplementedError

    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: list[tuple[int, ...]] | None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        raise NotImplementedError

    async def alter(
        self,
        name: str,
        change: Mapping[str, str | None],
        *,
        replace: bool,
        validate_only: bool = False,
        expect_version: int | None = None,
    ) -> Topic:
        raise NotImplementedError


@dataclass
class World:
    """One group and its topics; requests change the group at once."""

    topics: MemoryTopics
    settings: GroupSettings = field(default_factory=GroupSettings)
    group: GroupState | None = None
    new_ids: int = 0

    @property
    def consumers(self) -> ConsumerGroup:
        """The group, which must be of the consumer protocol."""
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    def env(self) -> Env:
        """What steps see."""
        return Env(
            now_ms=0,
            wall_ms=0,
            settings=self.settings,
            topics=self.topics,
            new_member_id=self._new_member_id,
        )

    def _new_member_id(self, prefix: str) -> str:
        self.new_ids += 1
        return f"{prefix}-new{self.new_ids}"

    def ask(self, asked: Heartbeat) -> HeartbeatAnswer:
        """Send a heartbeat; raises Refused, and then the group is as it was."""
        check_request(asked, self.settings.consumer_assignors)
        at_a_glance = idle_answer(self.group, asked, self.settings, self.topics)
        outcome = heartbeat(asked)(self.group, self.env())
        if at_a_glance is not None:
            assert outcome.group is self.group
            assert outcome.answer == at_a_glance
        self.group = outcome.group
        return outcome.answer

    def beat(
        self,
        member_id: str,
        epoch: int,
        reported: Partitions | None = None,
        *,
        names: Sequence[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = -1,
        version: int = 1,
    ) -> HeartbeatAnswer:
        """Send a heartbeat of a member."""
        return self.ask(
            Heartbeat(
                group_id=GROUP_ID,
                member_id=member_id,
                member_epoch=epoch,
                api_version=version,
                client_id="client",
                client_host="/127.0.0.1",
                instance_id=instance,
                rebalance_timeout_ms=rebalance_timeout_ms,
                topic_names=None if names is None else tuple(names),
                topic_regex=regex,
                server_assignor=assignor,
                reported=reported,
            )
        )

    def join(
        self,
        member_id: str,
        *names: str,
        regex: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
    ) -> HeartbeatAnswer:
        """Join with a subscription."""
        return self.beat(
            member_id,
            JOINING_EPOCH,
            NO_PARTITIONS,
            names=names if names or regex is None else None,
            regex=regex,
            instance=instance,
            assignor=assignor,
            rebalance_timeout_ms=60_000,
        )

    def leave(
        self, member_id: str, instance: str | None = None, epoch: int = LEAVING_EPOCH
    ) -> HeartbeatAnswer:
        """Leave."""
        return self.beat(member_id, epoch, instance=instance)

    def member(self, member_id: str) -> Member:
        """A member of the group."""
        return self.consumers.members[member_id]
