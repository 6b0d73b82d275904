"""Random clients against a group: no partition is ever used by two, and all are used in the end.

The clients behave as real ones: they give up partitions when they are told, report what they have,
lose answers and ask again, are fenced and come back. What they believe to own is checked, not what
the coordinator believes.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.unit.groups.helpers_consumer import MemoryTopics, World

from towpath.groups.consumer.partitions import Partitions, each
from towpath.groups.consumer.refusal import Refused
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.consumer.timers import rebalancing
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys.json_value import Fields

NAMES = ["a1", "a2", "b1", "b2"]
REGEXES = ["a.*", "b.*", ".*1", ""]
SEEDS = 40
STEPS = 250
SETTLING_ROUNDS = 12
WEIGHTS = {
    "beat": 30,
    "obey": 20,
    "lose_an_answer": 4,
    "subscribe": 2,
    "leave": 2,
    "restart": 2,
    "haunt": 2,
    "expire": 2,
    "expire_rebalances": 1,
    "grow": 1,
    "remove": 1,
    "settle": 1,
}
"""How often each thing happens, compared with the others."""
COMES_AGAIN = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
}


@dataclass
class Client:
    """A consumer: what it wants, and what it knows."""

    name: str
    names: list[str] = field(default_factory=list)
    regex: str = ""
    instance: str | None = None
    lives: int = 0
    epoch: int = 0
    is_in: bool = False
    owns: Partitions = field(default_factory=dict)
    told: Partitions = field(default_factory=dict)
    """What it shall own; it needs a while to give up the rest, and takes what is new after that."""
    is_told: bool = False
    """Whether it has yet to do what it was told."""
    acknowledges: bool = False
    """Whether it has yet to say that it has done so; otherwise it does not say what it owns."""
    tells_all: bool = True

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    def obey(self) -> None:
        """Do what it was told, if it was told something."""
        if self.is_told:
            self.owns, self.is_told, self.acknowledges = self.told, False, True

    def wants(self, topic: str) -> bool:
        return topic in self.names or re.fullmatch(self.regex, topic) is not None


class Model:
    """Clients, topics and one group; `chance` decides what happens."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.world = World(MemoryTopics(**{name: chance.randint(1, 5) for name in NAMES[1:]}))
        self.clients = [
            Client(f"c{number}", self._some_names(), instance=f"i{number}" if number < 2 else None)
            for number in range(5)
        ]
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}
        self.done: Counter[str] = Counter()

    def run(self, steps: int) -> None:
        """Let things happen, and check what must always hold after each."""
        what = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=steps)
        for name in what:
            getattr(self, name)()
            self.check_nobody_shares()
            self.check_epochs_grow()
            self.check_storage()

    def _some_names(self) -> list[str]:
        return self.chance.sample(NAMES, self.chance.randint(1, 3))

    # Clients

    def beat(self) -> None:
        self._beat(self.chance.choice(self.clients))

    def lose_an_answer(self) -> None:
        self._beat(self.chance.choice(self.clients), lost=True)

    def obey(self) -> None:
        self.chance.choice(self.clients).obey()

    def subscribe(self) -> None:
        client = self.chance.choice(self.clients)
        client.names = self._some_names() if self.chance.random() < 0.8 else []
        client.regex = self.chance.choice(REGEXES)
        client.tells_all = True

    def leave(self) -> None:
        client = self.chance.choice(self.clients)
        if client.is_in:
            self._leave(client, -1)

    def restart(self) -> None:
        """A static member goes for a while, another one dies and comes under another id."""
        client = self.chance.choice(self.clients)
        if client.is_in and client.instance is not None:
            self._leave(client, -2)
        client.lives += 1

    def haunt(self) -> None:
        """A former life of a client that does not know its end: it can do nothing."""
        client = self.chance.choice(self.clients)
        ghost, before = f"{client.name}-{client.lives - 1}", self.world.group
        if isinstance(before, ConsumerGroup) and ghost not in before.members:
            with pytest.raises(Refused) as refusal:
                self.world.beat(ghost, self.chance.randint(1, 9), {}, instance=client.instance)
            self._note(refusal.value)
            assert self.world.group is before

    def expire(self) -> None:
        """The session is over, and the client knows it."""
        self._remove(f"session {self.chance.choice(self.clients).member_id}")

    def expire_rebalances(self) -> None:
        if isinstance(self.world.group, ConsumerGroup):
            for member in rebalancing(self.world.group):
                self._remove(f"rebalance {member.member_id} {member.epoch}")

    def _remove(self, timer_name: str) -> None:
        group = self.world.group
        if not isinstance(group, ConsumerGroup):
            return
        for timer in group.timers(self.world.settings):
            if timer.name == timer_name:
                self.world.group = timer.step(group, self.world.env()).group
        for client in self.clients:
            if client.is_in and client.member_id not in self.world.consumers.members:
                self._drop(client)

    def _beat(self, client: Client, *, lost: bool = False) -> None:
        full = client.tells_all or not client.is_in
        if full:
            # As real clients, it ends what it is about before it tells everything anew.
            client.obey()
        reported = client.owns if full or client.acknowledges else None
        client.acknowledges = False
        try:
            answer = self.world.beat(
                client.member_id,
                client.epoch if client.is_in else 0,
                reported,
                names=client.names if full else None,
                regex=client.regex if full else None,
                instance=client.instance,
                rebalance_timeout_ms=60_000 if full else -1,
            )
        except Refused as refusal:
            self._note(refusal)
            if not lost:
                self._drop(client)
            return
        if lost:
            client.tells_all = True
            return
        client.is_in, client.epoch, client.tells_all = True, answer.member_epoch, False
        if answer.assigned is not None:
            client.told, client.is_told = answer.assigned, True

    def _leave(self, client: Client, epoch: int) -> None:
        try:
            self.world.beat(client.member_id, epoch, instance=client.instance)
        except Refused as refusal:
            self._note(refusal)
        self._drop(client)

    def _note(self, refusal: Refused) -> None:
        assert refusal.code in COMES_AGAIN, refusal
        self.done[refusal.code.name] += 1

    def _drop(self, client: Client) -> None:
        client.is_in, client.epoch, client.tells_all = False, 0, True
        client.owns, client.told, client.is_told, client.acknowledges = {}, {}, False, False

    # Topics

    def grow(self) -> None:
        name = self.chance.choice(NAMES)
        known = self.world.topics.get(name)
        more = self.chance.randint(1, 3)
        self.world.topics.make(name, more + (known.partitions if known else 0))

    def remove(self) -> None:
        if self.world.topics.known:
            self.world.topics.remove(self.chance.choice(sorted(self.world.topics.known)))

    # What must always hold

    def check_nobody_shares(self) -> None:
        owned = Counter(pair for client in self.clients for pair in each(client.owns))
        assert not [pair for pair, owners in owned.items() if owners > 1]
        if isinstance(self.world.group, ConsumerGroup):
            kept = Counter(
                pair
                for member in self.world.group.members.values()
                for pair in (*each(member.assigned), *each(member.revoking))
            )
            assert not [pair for pair, owners in kept.items() if owners > 1]
            assert self.world.group.owned == set(kept)

    def check_epochs_grow(self) -> None:
        group = self.world.group
        if not isinstance(group, ConsumerGroup):
            return
        assert group.epoch >= group.assignment_epoch
        assert (group.epoch, group.assignment_epoch) >= self.epochs
        assert group.assignment_epoch >= self.epochs[1]
        self.epochs = (group.epoch, group.assignment_epoch)
        for member in group.members.values():
            if member.epoch >= 0:
                assert self.member_epochs.get(member.member_id, 0) <= member.epoch
                assert member.epoch <= group.assignment_epoch
                self.member_epochs[member.member_id] = member.epoch

    def check_storage(self) -> None:
        group = self.world.group
        if isinstance(group, ConsumerGroup):
            blobs: dict[str, bytes] = {}

            def put(content: bytes) -> str:
                name = hashlib.sha256(content).hexdigest()
                blobs[name] = content
                return name

            root = json.loads(json.dumps(group.pack(put)))
            again = ConsumerGroup.unpack(Fields(root), blobs.__getitem__)
            targets = {key: value for key, value in group.targets.items() if value}
            assert again.targets == targets
            assert (again.members, again.regexes) == (group.members, group.regexes)

    def settle(self) -> None:
        """When members only send heartbeats, everything comes to rest and is in use."""
        clients = [client for client in self.clients if client.is_in]
        if not clients:
            return
        self._end_sessions_of_others(clients)
        for _ in range(SETTLING_ROUNDS):
            for client in clients:
                self._beat(client)
                client.obey()
        if not all(client.is_in for client in clients):
            return
        group = self.world.consumers
        assert group.state_name == "Stable"
        before = self.world.group
        for client in clients:
            self._beat(client)
        assert self.world.group is before
        self._check_complete(clients)
        self.done["settled"] += 1
        self.done["shared by two or more"] += sum(bool(client.owns) for client in clients) > 1

    def _end_sessions_of_others(self, clients: list[Client]) -> None:
        talking = {client.member_id for client in clients}
        for member_id in self.world.consumers.member_ids:
            if member_id not in talking:
                self._remove(f"session {member_id}")

    def _check_complete(self, clients: list[Client]) -> None:
        wanted = {
            (topic.topic_id, number)
            for topic in self.world.topics.all()
            if any(client.wants(topic.name) for client in clients)
            for number in range(topic.partitions)
        }
        owned = {pair for client in clients for pair in each(client.owns)}
        assert owned == wanted


@pytest.mark.parametrize("seed", range(SEEDS))
def test_model(seed: int) -> None:
    Model(random.Random(seed)).run(STEPS)


def test_the_model_meets_what_it_is_about() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        model = Model(random.Random(seed))
        model.run(STEPS)
        met += model.done
    for what in ("settled", "shared by two or more", *(code.name for code in COMES_AGAIN)):
        assert met[what] > 0, what
