"""Random requests to two coordinators on one store, against a model of one classic group.

Each request goes to either of them; leases are lost, and brokers are killed and replaced. What
members are told, when, and what is stored must be what the model says.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.faults.simulation.loop import SimLoop
from tests.unit.groups.helpers_classic_model import (
    REBALANCE_MS,
    SESSION_MS,
    ClassicModel,
    Told,
)
from tests.unit.groups.helpers_cluster import GROUP, Broker, World

from towpath.groups.classic.state import ClassicGroup
from towpath.groups.kinds import KINDS
from towpath.groups.packing import unpack
from towpath.kafka.apis.heartbeat import handle_heartbeat
from towpath.kafka.apis.join_group import handle_join_group
from towpath.kafka.apis.leave_group import handle_leave_group
from towpath.kafka.apis.sync_group import handle_sync_group
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest
from towpath.kafka.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import GroupRoot

SEEDS = 40
STEPS = 120
CLIENTS = 4
MARGIN_MS = 50
"""No look at the group comes closer to the time of an event: brokers count whole milliseconds."""
TOLD_MS_MAX = 400
"""So long it takes, at most, until the holder knows of a member that turns up elsewhere."""
WEIGHTS = {
    "join": 12,
    "sync": 16,
    "beat": 10,
    "beat_wrongly": 3,
    "leave": 3,
    "commit": 4,
    "hang_up": 2,
    "restart_client": 2,
    "pass_a_while": 6,
    "pass_a_session": 2,
    "lose_lease": 1,
    "kill": 1,
}
"""How often each thing happens, compared with the others."""


@dataclass
class Client:
    """Somebody who wants to be a member."""

    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    metadata: bytes = b"m"
    request: asyncio.Task[Any] | None = None
    broker: Broker | None = None
    members: list[str] = field(default_factory=list)


class Run:
    """Clients, two brokers, and the model beside them."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.model = ClassicModel(now_ms=world.now_ms())
        self.clients = [Client(f"c{i}", f"i{i}" if i == 0 else None) for i in range(CLIENTS)]
        self.done: Counter[str] = Counter()

    async def go(self) -> None:
        """All steps."""
        await self.world.start(2)
        for name in self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
            await getattr(self, name)()
            await self.check()
        for client in self.clients:
            self._cancel(client)

    # Requests

    def _broker(self) -> Broker:
        return self.chance.choice([one for one in self.world.brokers if not one.is_dead])

    def _broker_for(self, client: Client) -> Broker:
        """Any, but the holder where another one could not tell it in time that the member lives."""
        member = self.model.members.get(client.member_id)
        soon_ms = self.world.now_ms() + TOLD_MS_MAX
        if member is None or member.seen_ms + SESSION_MS > soon_ms:
            return self._broker()
        holder = self.world.holder()
        return next((b for b in self.world.brokers if b.broker_id == holder), self._broker())

    def _idle_client(self) -> Client | None:
        idle = [client for client in self.clients if client.request is None]
        return self.chance.choice(idle) if idle else None

    async def _send(self, client: Client, coroutine: Any, broker: Broker) -> Any:
        """The answer, or None if the request waits."""
        self.model.now_ms = self.world.now_ms()
        task = asyncio.ensure_future(coroutine)
        await settle()
        if task.done():
            return task.result()
        client.request, client.broker = task, broker
        return None

    async def join(self) -> None:
        client = self._idle_client()
        if client is None:
            return
        if self.chance.random() < 0.2:
            client.metadata = self.chance.choice([b"m", b"n"])
        broker = self._broker_for(client)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=client.metadata)],
        )
        answer = await self._send(client, handle_join_group(request, broker.context(9)), broker)
        instance_id, metadata = client.instance_id, client.metadata
        if client.member_id:
            told = self.model.join(client.member_id, instance_id, metadata)
        else:
            client.member_id = self._given_id(client) if answer is None else answer.member_id
            told = self.model.join_new(client.member_id, instance_id, metadata)
        assert (answer is None) == (told is None), (answer, told)
        if told is not None:
            self._take_join(client, answer, told)

    def _given_id(self, client: Client) -> str:
        group = self._stored()
        assert group is not None
        assert client.instance_id is not None
        return group.static_ids[client.instance_id]

    def _take_join(self, client: Client, answer: Any, told: Told) -> None:
        assert answer.error_code == told.error
        self.done[f"join {told.error.name}"] += 1
        if told.error is ErrorCode.NONE:
            assert answer.generation_id == told.generation
            assert bool(answer.members) == told.leads
            assert answer.member_id == client.member_id
            client.generation, client.leads = answer.generation_id, bool(answer.members)
            known = [] if answer.skip_assignment else answer.members
            client.members = [member.member_id for member in known]
        elif told.error is not ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = ""

    async def sync(self) -> None:
        client = self._idle_client()
        if client is None or not client.member_id:
            return
        assignments = {m: f"{m}/{client.generation}".encode() for m in client.members}
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=content)
                for m, content in assignments.items()
            ],
        )
        broker = self._broker_for(client)
        answer = await self._send(client, handle_sync_group(request, broker.context(5)), broker)
        told = self.model.sync(client.member_id, client.instance_id, client.generation, assignments)
        assert (answer is None) == (told is None), (answer, told)
        if told is not None:
            self._take_sync(client, answer, told)

    def _take_sync(self, client: Client, answer: Any, told: Told) -> None:
        assert answer.error_code == told.error
        self.done[f"sync {told.error.name}"] += 1
        if told.error is ErrorCode.NONE:
            assert bytes(answer.assignment) == told.assignment
        elif told.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self._fall_back(client, told.error)

    async def beat(self) -> None:
        client = self._idle_client()
        if client is not None and client.member_id:
            error = await self._beat(client, client.generation)
            self._fall_back(client, error)

    async def beat_wrongly(self) -> None:
        client = self._idle_client()
        if client is not None and client.member_id:
            await self._beat(client, client.generation + self.chance.choice([-1, 1]))

    async def _beat(
        self, client: Client, generation: int, broker: Broker | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        context = (broker or self._broker_for(client)).context(4)
        self.model.now_ms = self.world.now_ms()
        answer = await handle_heartbeat(request, context)
        error = self.model.beat(client.member_id, client.instance_id, generation)
        assert answer is not None
        assert answer.error_code == error
        self.done[f"beat {error.name}"] += 1
        return error

    async def leave(self) -> None:
        client = self._idle_client()
        if client is None or not client.member_id:
            return
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[
                MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
            ],
        )
        self.model.now_ms = self.world.now_ms()
        answer = await handle_leave_group(request, self._broker().context(5))
        await settle()  # Those who wait at the other broker hear of it.
        error = self.model.leave(client.member_id, client.instance_id)
        assert answer is not None
        assert answer.members[0].error_code == error
        self.done[f"leave {error.name}"] += 1
        client.member_id = ""

    async def commit(self) -> None:
        """Whether a commit is accepted, at the broker's view of the group."""
        client = self._idle_client()
        if client is None or not client.member_id:
            return
        generation = client.generation + self.chance.choice([0, 0, 0, -1])
        self.model.now_ms = self.world.now_ms()
        broker = self._broker_for(client)
        view = await broker.groups.view(GROUP)
        error = self.model.commit(client.member_id, client.instance_id, generation)
        if view.state is None:
            assert self.model.generation == 0
            return
        told = view.state.check_commit(client.member_id, client.instance_id, generation, 9)
        assert told == error
        self.done[f"commit {error.name}"] += 1
        if error is ErrorCode.NONE and client.member_id in self.model.members:
            broker.groups.seen(GROUP, client.member_id)
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            # The model takes a refused commit for a sign of life, brokers do not.
            await self._beat(client, generation)

    def _fall_back(self, client: Client, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    # What goes wrong

    async def hang_up(self) -> None:
        waiting = [client for client in self.clients if client.request is not None]
        if waiting:
            self._hang_up(self.chance.choice(waiting))
            await settle()

    def _hang_up(self, client: Client) -> None:
        self.model.now_ms = self.world.now_ms()
        self._cancel(client)
        self.model.hang_up(client.member_id)

    def _cancel(self, client: Client) -> None:
        if client.request is not None:
            client.request.cancel()
            client.request = client.broker = None

    async def restart_client(self) -> None:
        client = self.chance.choice(self.clients)
        if client.request is not None:
            self._hang_up(client)
            await settle()
        client.member_id, client.generation = "", -1

    async def lose_lease(self) -> None:
        """The holder's session ends; somebody takes the lease at once, perhaps the same again."""
        before = self.world.holder()
        if before is None:
            return
        [holder] = [one for one in self.world.brokers if one.broker_id == before]
        session = holder.groups._leases._session
        assert session is not None
        lease = self.world.state.version_of(keys.lease(GROUP))
        self.world.state.end_session(session.session_id)
        await settle()
        self.model.now_ms = self.world.now_ms()
        assert self.world.state.version_of(keys.lease(GROUP)) != lease
        self.done["takeover" if self.world.holder() != before else "taken again"] += 1
        self.model.restart()
        await self._all_beat(self._broker())

    async def kill(self) -> None:
        """A broker dies and another one comes; its clients go elsewhere."""
        before = self.world.holder()
        killed = self._broker()
        for client in self.clients:
            if client.broker is killed:
                self._hang_up(client)
        await settle()
        killed.kill()
        [other] = [one for one in self.world.brokers if not one.is_dead]
        await self.world.start()
        if before == killed.broker_id:
            # The next holder comes if there is anything to wait for.
            needed = self.model.next_ms() is not None
            old = (before, None) if needed else (before,)
            while self.world.holder() in old:  # noqa: ASYNC110 - time is simulated.
                await asyncio.sleep(0.01)
            await settle()
            self.done["takeover after a death"] += 1
            self.model.now_ms = self.world.now_ms()
            self.model.restart()
        await self._all_beat(other)

    async def _all_beat(self, broker: Broker) -> None:
        """What the dead broker knew, the others learn from the members."""
        for member in list(self.model.members.values()):
            if member.member_id not in self.model.waiting:
                # Not all at once: it would be a matter of luck what expires first.
                await self._pass(4 * MARGIN_MS)
            if member.member_id in self.model.members.keys() - self.model.waiting.keys():
                stand_in = Client("", member.instance_id, member.member_id)
                await self._beat(stand_in, self.model.generation, broker)

    async def pass_a_while(self) -> None:
        await self._pass(self.chance.randrange(100, SESSION_MS // 2))

    async def pass_a_session(self) -> None:
        await self._pass(self.chance.randrange(SESSION_MS, 2 * REBALANCE_MS))

    async def _pass(self, duration_ms: int) -> None:
        """Let time pass, to a moment at which nothing is just happening."""
        until_ms = self.world.now_ms() + duration_ms
        while (due_ms := self.model.next_ms()) is not None and due_ms <= until_ms + MARGIN_MS:
            quiet_ms = self._quiet_ms(due_ms)
            await self._sleep_until(quiet_ms)
            self.model.pass_time(quiet_ms)
            self.done["expiries"] += 1
            await self.check()
        if self.world.now_ms() < until_ms:
            await self._sleep_until(until_ms)
            self.model.pass_time(until_ms)

    def _quiet_ms(self, due_ms: int) -> int:
        """Some time after that at which nothing else is due."""
        quiet_ms = due_ms + MARGIN_MS
        for other_ms in sorted(self.model.due_ms()):
            if abs(other_ms - quiet_ms) < MARGIN_MS // 2:
                quiet_ms = other_ms + MARGIN_MS
        return quiet_ms

    async def _sleep_until(self, time_ms: int) -> None:
        await asyncio.sleep(max(0, time_ms - self.world.now_ms()) / 1000)
        await settle()

    # What must hold

    async def check(self) -> None:
        """The waiting ones are answered as the model says, and the store holds what it says."""
        for client in self.clients:
            request = client.request
            if request is None:
                continue
            told = self.model.told.pop(client.member_id, None)
            assert request.done() == (told is not None), (client, told)
            if told is not None:
                client.request = client.broker = None
                answer = request.result()
                joins = hasattr(answer, "generation_id")
                (self._take_join if joins else self._take_sync)(client, answer, told)
        self.model.told.clear()
        self._check_stored()

    def _check_stored(self) -> None:
        group, model = self._stored(), self.model
        if group is None:
            assert not model.members
            assert not model.pending
            assert not model.generation
            return
        assert group.state_name == model.phase
        assert group.generation == model.generation
        assert group.leader_id == model.leader
        assert list(group.members) == list(model.members)
        assert set(group.pending) == set(model.pending)
        for member in group.members.values():
            expected = model.members[member.member_id]
            assert member.awaits_join == expected.has_joined
            assert member.owes_sync == (not expected.has_synced)
            assert member.assignment == expected.assignment

    def _stored(self) -> ClassicGroup | None:
        row = self.world.state.get(keys.state(GROUP))
        if row is None:
            return None
        group = unpack(GroupRoot.decode(row.value), {}, KINDS)
        assert isinstance(group, ClassicGroup)
        return group


async def settle() -> None:
    """Let everything run that needs no time."""
    await asyncio.sleep(0.002)


def run_seed(seed: int) -> Counter[str]:
    """Run one seed; how often things happened."""
    loop = SimLoop()
    world = World(loop)
    run = Run(world, random.Random(seed))

    async def body() -> None:
        try:
            await run.go()
        finally:
            for broker in world.brokers:
                await broker.stop()

    try:
        loop.run_until_complete(body())
    finally:
        loop.demolish()
    assert not loop.complaints
    return run.done


@pytest.mark.parametrize("seed", range(SEEDS))
def test_classic_model(seed: int) -> None:
    run_seed(seed)


def test_the_model_meets_what_it_is_about() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS // 2):
        met += run_seed(seed)
    for what in (
        "join NONE",
        "join MEMBER_ID_REQUIRED",
        "join UNKNOWN_MEMBER_ID",
        "sync NONE",
        "sync REBALANCE_IN_PROGRESS",
        "sync ILLEGAL_GENERATION",
        "beat NONE",
        "beat REBALANCE_IN_PROGRESS",
        "beat ILLEGAL_GENERATION",
        "beat UNKNOWN_MEMBER_ID",
        "leave NONE",
        "commit NONE",
        "commit ILLEGAL_GENERATION",
        "commit REBALANCE_IN_PROGRESS",
        "expiries",
        "takeover",
        "taken again",
        "takeover after a death",
    ):
        assert met[what] > 0, (what, met)
