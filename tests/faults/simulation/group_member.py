"""What members of both protocols do alike: talk to some broker, read, and commit what they read."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.cluster import Cluster
from tests.faults.simulation.consumer import Consumer
from tests.faults.simulation.group_observer import Asked, GroupObserver
from tests.faults.simulation.group_scenario import GroupScenario
from tests.faults.simulation.group_truth import Place
from tests.faults.simulation.loop import SimLoop
from tests.faults.simulation.wire import Broken, Wire

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.find_coordinator import FindCoordinatorRequest
from towpath.kafka.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from towpath.kafka.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from towpath.kafka.codec.schema import ApiMessage

RETRY_S = 0.1
COMMITS = 0.7
"""How often a member commits when it has read something."""
MOVES = 0.05
"""How often a member goes on at another broker."""
SEVERAL_GROUPS_SINCE_VERSION = 8
CHECKED_SINCE_VERSION = 9
BY_ID_SINCE_VERSION = 10
PLACES_MAX = 3
"""Partitions that one fetch asks for."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all members of a run share."""

    loop: SimLoop
    cluster: Cluster
    scenario: GroupScenario
    observer: GroupObserver


class GroupMember(ABC):
    """One life of one member. It runs until it is told to leave, or is cancelled (it crashes)."""

    def __init__(
        self,
        world: Surroundings,
        wire: Wire,
        chance: Chance,
        group_id: str,
        instance_id: str | None,
    ) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = -1
        """The generation or the member epoch."""
        self.owned: frozenset[Place] = frozenset()
        """The partitions that it uses."""
        self.leaving = False
        self._awake = asyncio.Event()
        self._awake.set()
        self.wire = wire
        self._world = world
        self._observer = world.observer
        self._scenario = world.scenario
        self._chance = chance
        self._reader = Consumer(wire, world.observer.topics, chance.child("reader"))
        self._committed: dict[Place, int] = {}
        """What is known to be committed of the partitions that it uses."""
        self._commits = 0
        self._version = chance.pick(*self.COMMIT_VERSIONS)
        self._fetch_version = chance.pick(1, 5, 7, 8, 9, 10)

    COMMIT_VERSIONS: tuple[int, ...]

    async def run(self) -> None:
        """Be a member until told to leave."""
        while not self.leaving:
            try:
                await self._turn()
                if self._chance.happens(MOVES):
                    self.wire.close()
            except Broken:
                self._lost_answer()
        await self._say_goodbye()
        self.owns(frozenset())
        self.wire.close()

    @abstractmethod
    async def _turn(self) -> None:
        """Join if need be, or one round of heartbeat and work."""

    @abstractmethod
    async def _goodbye(self) -> bool:
        """Ask to be removed; whether that is settled."""

    @property
    def leaves_for_good(self) -> bool:
        """Whether it asks to be removed when it leaves."""
        return True

    def _lost_answer(self) -> None:
        """A request was not answered."""
        self._observer.counts["lost answers"] += 1

    def pause(self, seconds: float) -> None:
        """Ask nothing for a while; what was asked is still answered."""
        self._awake.clear()
        self._world.loop.call_later(seconds, self.resume)

    def resume(self) -> None:
        """Go on."""
        self._awake.set()

    def crash(self) -> None:
        """The process is gone."""
        self.owns(frozenset())

    def owns(self, places: frozenset[Place]) -> None:
        """Use these partitions from now on."""
        self.owned = places
        self._committed = {place: at for place, at in self._committed.items() if place in places}

    async def _say_goodbye(self) -> None:
        while self.member_id:
            if self.leaves_for_good:
                self._observer.lives.life(self.group_id, self.member_id).leaves = True
            try:
                if await self._goodbye():
                    return
            except Broken:
                continue
            await asyncio.sleep(RETRY_S)

    # Requests

    def now_s(self) -> float:
        """The time."""
        return self._world.loop.time()

    async def _ask(
        self, request: ApiMessage, version: int, *, wait_s: float = 0.0
    ) -> tuple[Any, Asked]:
        """Send a request when the member is not paused, and wait for the answer."""
        await self._awake.wait()
        if not self.wire.connected and self._chance.happens(self._scenario.asks_for_coordinator):
            await self._go_to_coordinator()
        await self.wire.connect()
        assert self.wire.node is not None
        asked = self._observer.asked(
            self.group_id, self.member_id, self.instance_id, self.epoch, self.wire.node
        )
        return await self.wire.ask(request, version, wait_s=wait_s), asked

    async def _go_to_coordinator(self) -> None:
        """Connect to the broker that another one names, if it is there."""
        version = self._chance.pick(2, 4)
        request = FindCoordinatorRequest(key=self.group_id, coordinator_keys=[self.group_id])
        answer = await self.wire.ask(request, version)
        found = answer if version < 4 else answer.coordinators[0]
        broker = self._world.cluster.present.get(found.node_id)
        if broker is None:
            self._observer.journal.fail(f"broker {found.node_id} coordinates, which never was")
        elif broker.accepting and not broker.node.dead:
            self.wire.close()
            await self.wire.connect(broker)

    # Work

    async def _work(self) -> None:
        """Read a little, and commit it perhaps."""
        if not await self._find_positions():
            return
        usable = self._observer.topics.usable()
        places = sorted(p for p in self.owned & self._committed.keys() if p[0] in usable)
        if not places:
            return
        chosen = self._chance.sample(places, min(PLACES_MAX, len(places)))
        positions = self._reader.positions
        before = self.owned
        await self._reader.fetch({place: positions[place] for place in chosen}, 0)
        if self.owned is before and self._chance.happens(COMMITS):
            await self._commit(places)

    async def _find_positions(self) -> bool:
        """Know where to read from; False if nobody could tell."""
        usable = self._observer.topics.usable()
        unknown = sorted(p for p in self.owned - self._committed.keys() if p[0] in usable)
        if not unknown:
            return True
        answer, asked = await self._ask(self._offset_fetch(unknown), self._fetch_version)
        code, found = _fetched(answer, self._fetch_version, self._observer)
        error = self._observer.answered(
            "OffsetFetch",
            asked,
            code,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.STALE_MEMBER_EPOCH,
        )
        if error is not ErrorCode.NONE:
            await asyncio.sleep(RETRY_S)
            return False
        for place, offset in found.items():
            self._observer.fetched(asked, place, offset)
            if place in self.owned:
                self._committed[place] = offset
                self._reader.positions[place] = max(offset, 0)
        return True

    def _offset_fetch(self, places: Collection[Place]) -> OffsetFetchRequest:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in places:
            by_topic.setdefault(topic, []).append(partition)
        checked = self._fetch_version >= CHECKED_SINCE_VERSION
        ids = self._observer.topics.ledger.topics
        return OffsetFetchRequest(
            group_id=self.group_id,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)
                for topic, partitions in by_topic.items()
            ],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group_id,
                    member_id=self.member_id if checked else None,
                    member_epoch=self.epoch if checked else -1,
                    topics=[
                        OffsetFetchRequestTopics(
                            name=topic,
                            topic_id=ids[topic].topic_id,
                            partition_indexes=partitions,
                        )
                        for topic, partitions in by_topic.items()
                    ],
                )
            ],
        )

    async def _commit(self, places: Collection[Place]) -> None:
        """Commit what has been read of these partitions and is not committed."""
        positions = self._reader.positions
        usable = self._observer.topics.usable()
        offsets = {
            place: positions[place]
            for place in sorted(places)
            if place[0] in usable and positions[place] > max(0, self._committed.get(place, 0))
        }
        if not offsets:
            return
        self._commits += 1
        name = f"{self.wire.name}:{self._commits}"
        request = self._offset_commit(offsets, name)
        await self.wire.connect()
        assert self.wire.node is not None
        self._observer.attempt(
            name,
            self._observer.asked(
                self.group_id, self.member_id, self._instance(), self.epoch, self.wire.node
            ),
            self._version,
            offsets,
        )
        try:
            answer, asked = await self._ask(request, self._version)
        except (*Broken, asyncio.CancelledError):
            self._observer.attempted(name, ErrorCode.REQUEST_TIMED_OUT)
            raise
        codes = {part.error_code for topic in answer.topics for part in topic.partitions}
        codes -= self._of_doomed(answer)
        for code in codes or {ErrorCode.NONE}:
            self._observer.attempted(name, code)
            self._judge_commit(asked, code)
            if code == ErrorCode.NONE:
                self._committed.update(offsets)

    def _of_doomed(self, answer: Any) -> set[int]:
        """Errors of topics that are being deleted."""
        return {
            part.error_code
            for topic in answer.topics
            for part in topic.partitions
            if self._topic_name(topic) in self._observer.topics.doomed
        }

    def _topic_name(self, topic: Any) -> str:
        if self._version < BY_ID_SINCE_VERSION:
            return str(topic.name)
        return topic_names(self._observer)[topic.topic_id]

    def _instance(self) -> str | None:
        """The instance id as the version of the commit tells it."""
        return self.instance_id if self._version >= 7 else None

    @abstractmethod
    def _judge_commit(self, asked: Asked, code: int) -> None:
        """A commit was answered."""

    def _offset_commit(self, offsets: Mapping[Place, int], name: str) -> OffsetCommitRequest:
        ids = self._observer.topics.ledger.topics
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self._instance(),
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=ids[topic].topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=name,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )


def topic_names(observer: GroupObserver) -> dict[Any, str]:
    """The names of topics by their ids."""
    return {topic.topic_id: name for name, topic in observer.topics.ledger.topics.items()}


def _fetched(answer: Any, version: int, observer: GroupObserver) -> tuple[int, dict[Place, int]]:
    """The group's error and the offsets of an OffsetFetch."""
    names = topic_names(observer)
    whole = answer if version < SEVERAL_GROUPS_SINCE_VERSION else answer.groups[0]
    code = int(getattr(whole, "error_code", ErrorCode.NONE))
    found: dict[Place, int] = {}
    for topic in whole.topics:
        name = names[topic.topic_id] if version >= BY_ID_SINCE_VERSION else topic.name
        for part in topic.partitions if name not in observer.topics.doomed else ():
            code = code or part.error_code
            found[name, part.partition_index] = part.committed_offset
    return code, found
