"""What befalls groups: members that crash, pause, move and leave, and holders of leases that are
killed, paused beyond their lease or cut off, at any write that they make."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.cluster import Broker, Cluster
from tests.faults.simulation.group_scenario import LOAD_S
from tests.faults.simulation.group_seats import Seat, Seats, SimGroup
from tests.faults.simulation.group_truth import GroupTruth
from tests.faults.simulation.journal import Journal
from tests.faults.simulation.loop import SimLoop
from tests.faults.simulation.network import Network
from tests.faults.simulation.scenario import Scenario
from tests.faults.simulation.state import SharedState

from towpath.metadata.keys import groups as keys

STEP_WAIT_S = 3.0
"""How long a fault waits for a broker to make the write at which it strikes."""
COMES_BACK = 0.7
"""How often a member that is gone is followed by another life, soon."""
STAYS_DEAD = 0.3
"""How often a seat that is empty when the faults stop stays so."""
WRITES = (keys.STATE, keys.STATE, keys.STATE, keys.BLOBS, keys.LEASE, keys.SEEN, keys.OFFSETS)


class GroupNemesis:
    """Carries out the disasters of the groups' scenario one after the other."""

    def __init__(
        self,
        loop: SimLoop,
        scenario: Scenario,
        cluster: Cluster,
        network: Network,
        state: SharedState,
        journal: Journal,
        seats: Seats,
        truth: GroupTruth,
    ) -> None:
        assert scenario.groups is not None
        self._loop = loop
        self._scenario = scenario.groups
        self._session_ttl_s = scenario.session_ttl_ms / 1000
        self._cluster = cluster
        self._network = network
        self._state = state
        self._journal = journal
        self._seats = seats
        self._truth = truth
        self._chance = Chance(scenario.seed, "group-nemesis")
        self._armed: tuple[str, str] | None = None
        """A kind of key and what shall happen when one is written."""
        self._struck = asyncio.Event()
        self._is_over = False
        self.counts: Counter[str] = Counter()
        cluster.on_write = self._on_write

    async def run(self) -> None:
        """All disasters, spread over the load."""
        count = self._scenario.disaster_count if self._scenario.disasters else 0
        started_s = self._loop.time()
        for _ in range(count):
            await asyncio.sleep(2 * self._chance.random() * LOAD_S / (count + 1))
            await self._strike(self._chance.pick(*self._scenario.disasters))
        self._armed = None
        left_s = started_s + LOAD_S - self._loop.time()
        await asyncio.sleep(max(left_s, self._cluster.paused_for_s()))

    def heal(self) -> None:
        """Whoever is paused goes on, and some of those who are gone come again."""
        self._armed = None
        if self._is_over:
            return
        self._is_over = True
        for seat in self._seats.all():
            if seat.member is None and not self._chance.happens(STAYS_DEAD):
                self._seats.start(seat)
            if seat.member is not None:
                seat.member.resume()

    async def _strike(self, disaster: str) -> None:
        group = self._chance.pick(*self._seats.groups)
        self._journal.note(f"disaster {disaster} at {group.group_id}")
        self.counts[disaster] += 1
        if disaster.startswith(("member-", "all-members-")):
            self._strike_members(disaster, group)
            return
        brokers = [one for one in self._cluster.alive() if one.accepting]
        holder = self._holder(group)
        if holder is not None and disaster.startswith("holder-"):
            broker = holder
        elif brokers:
            broker = self._chance.pick(*brokers)
        else:
            return
        if disaster.endswith("-at-write"):
            await self._strike_at(self._chance.pick(*WRITES), disaster)
        else:
            await self._strike_broker(disaster, broker)

    def _holder(self, group: SimGroup) -> Broker | None:
        row = self._state.get(keys.lease(group.group_id))
        if row is None:
            return None
        broker = self._cluster.present.get(keys.GroupLease.decode(row.value).broker_id)
        return None if broker is None or broker.node.dead else broker

    # Members

    def _strike_members(self, disaster: str, group: SimGroup) -> None:
        seat = self._chance.pick(*group.seats)
        if disaster == "member-crash":
            self._seats.crash(seat)
            self._come_back(group)
        elif disaster == "member-leave":
            self._seats.leave(seat)
            self._come_back(group)
        elif disaster == "member-pause":
            if seat.member is not None:
                seconds = self._chance.random() * 2 * self._scenario.session_ms / 1000
                seat.member.pause(seconds)
        elif disaster == "member-move":
            if seat.member is not None:
                seat.member.wire.close()
        elif disaster == "member-partition":
            brokers = self._cluster.alive()
            if seat.member is not None and brokers:
                until_s = self._loop.time() + self._chance.uniform(0.2, 3.0)
                name = self._chance.pick(*brokers).name
                self._network.partition(seat.member.wire.name, name, until_s)
        else:
            for one in group.seats:
                if disaster == "all-members-leave":
                    self._seats.leave(one)
                else:
                    self._seats.crash(one)
            self._come_back(group)

    def _come_back(self, group: SimGroup) -> None:
        for seat in group.seats:
            if seat.member is None and self._chance.happens(COMES_BACK):
                delay_s = self._chance.pick(0.1, 2.0, 6.0) * self._chance.random()
                self._loop.call_later(delay_s, self._start_again, seat)

    def _start_again(self, seat: Seat) -> None:
        if not self._is_over:
            self._seats.start(seat)

    # Brokers

    async def _strike_broker(self, disaster: str, broker: Broker) -> None:
        what = disaster.partition("-")[2]
        if what == "crash":
            self._kill(broker)
        elif what == "pause":
            self._cluster.pause(broker, self._pause_s())
        elif what == "cut":
            until_s = self._loop.time() + self._chance.random() * 2 * self._session_ttl_s
            broker.store.line.cut_until_s = until_s
        elif what == "restart":
            await self._cluster.stop(broker)
            self._cluster.start(broker.broker_id)
        elif what == "session":
            if sessions := self._state.session_ids:
                self._state.end_session(self._chance.pick(*sessions))
        else:
            assert disaster == "lost-feed"
            broker.store.lose_feed()

    def _pause_s(self) -> float:
        """Beyond a lease, and sometimes beyond a member's session as well."""
        session_s = self._scenario.session_ms / 1000
        most_s = self._chance.pick(2 * self._session_ttl_s, self._session_ttl_s + 2 * session_s)
        return self._chance.random() * most_s

    def _kill(self, broker: Broker) -> None:
        self._cluster.kill(broker)
        delay_s = self._chance.random() * 3.0
        self._loop.call_later(delay_s, self._cluster.start, broker.broker_id)

    # Faults in the middle of something

    async def _strike_at(self, kind: str, disaster: str) -> None:
        self._struck.clear()
        self._armed = (kind, disaster)
        try:
            async with asyncio.timeout(STEP_WAIT_S):
                await self._struck.wait()
        except TimeoutError:
            self._armed = None

    def _on_write(self, broker: Broker, puts: Sequence[tuple[str, bytes]]) -> None:
        self._truth.leaving(broker, puts)
        if self._armed is None:
            return
        kind, disaster = self._armed
        if not any(_is_of_kind(key, kind) for key, _ in puts):
            return
        self._armed = None
        self._struck.set()
        self._journal.note(f"{disaster} {kind} at {broker.name}")
        world = self._cluster.world
        if disaster == "crash-at-write":
            if self._chance.happens(0.5):
                broker.node.dead = True  # What was to leave does not.
            self._loop.call_soon(self._after_kill, broker, context=world)
            return
        if self._chance.happens(0.5):
            broker.node.paused = True  # It leaves when the broker goes on.
            self._loop.call_soon(self._cluster.resume_later, broker, self._pause_s(), context=world)
        else:
            self._loop.call_soon(self._cluster.pause, broker, self._pause_s(), context=world)

    def _after_kill(self, broker: Broker) -> None:
        broker.node.dead = False
        self._kill(broker)


def _is_of_kind(key: str, kind: str) -> bool:
    return key.startswith(keys.GROUPS_PREFIX) and keys.parse(key).kind == kind
