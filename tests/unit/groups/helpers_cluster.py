"""Coordinators of several brokers on one memory store, in virtual time, and members that talk.

Whatever a test waits for happens at once as far as the machine is concerned: when nothing is left
to do, time jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.loop import SimLoop
from tests.unit.groups.helpers_other_kind import OtherKind

from towpath.cluster.membership import Membership
from towpath.groups.classic.state import ClassicGroup
from towpath.groups.consumer.state import ConsumerGroup
from towpath.groups.coordinator import GroupCoordinator
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.kafka.apis.heartbeat import handle_heartbeat
from towpath.kafka.apis.join_group import handle_join_group
from towpath.kafka.apis.leave_group import handle_leave_group
from towpath.kafka.apis.registry import RequestContext
from towpath.kafka.apis.sync_group import handle_sync_group
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.heartbeat import HeartbeatRequest
from towpath.kafka.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from towpath.kafka.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from towpath.kafka.services import KafkaSettings, Services
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.cluster import BrokerRecord
from towpath.metadata.memory import MemoryStore
from towpath.metadata.memory_state import MemoryState
from towpath.metadata.store import (
    ANY,
    Append,
    Committed,
    Condition,
    Expect,
    KeyValue,
    Put,
    Session,
    prefix_end,
)
from towpath.observe.metrics import Metrics
from towpath.runtime import InlineOffload, Runtime
from towpath.topics.catalog import TopicCatalog
from towpath.topics.effective import TopicDefaults

SESSION_TTL_MS = 9_000
KINDS: Mapping[str, type[GroupState]] = {
    "classic": ClassicGroup,
    "consumer": ConsumerGroup,
    "other": OtherKind,
}
GROUP = "g"
LOOK_EVERY_S = 0.05

Hook = Callable[[], Awaitable[None]]


@dataclass
class Fault:
    """Happens once around a call of `verb` on a key that contains `key`."""

    verb: str
    key: str
    error: Exception | None = None
    after: bool = False
    action: Hook | None = None


class CountingStore(MemoryStore):
    """A memory store that counts what it writes, by kind of key, and fails where it is told to."""

    def __init__(self, runtime: Runtime, state: MemoryState) -> None:
        super().__init__(runtime, state)
        self.writes: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.latency_s = 0.0

    async def _fire(self, verb: str, key: str, *, after: bool) -> None:
        if not after and self.latency_s:
            await asyncio.sleep(self.latency_s)
        for fault in tuple(self.faults):
            if fault.verb == verb and fault.key in key and fault.after == after:
                self.faults.remove(fault)
                if fault.action is not None:
                    await fault.action()
                if fault.error is not None:
                    raise fault.error

    async def get(self, key: str) -> KeyValue | None:
        await self._fire("get", key, after=False)
        return await super().get(key)

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        await self._fire("put", key, after=False)
        version = await super().put(key, value, expect=expect, session=session)
        self._count(key)
        await self._fire("put", key, after=True)
        return version

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        await self._fire("delete", key, after=False)
        deleted = await super().delete(key, expect=expect)
        self._count(key)
        return deleted

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        key = puts[0].key if puts else deletes[0] if deletes else ""
        await self._fire("commit", key, after=False)
        done = await super().commit(
            domain, appends=appends, puts=puts, deletes=deletes, expect=expect
        )
        self._count(key)
        await self._fire("commit", key, after=True)
        return done

    def _count(self, key: str) -> None:
        parts = key.removeprefix(keys.GROUPS_PREFIX).split("/")
        in_group = key.startswith(keys.GROUPS_PREFIX) and len(parts) > 1
        self.writes[parts[1] if in_group else "other"] += 1


@dataclass
class Broker:
    """One broker's coordinator, and the handlers' way to it."""

    broker_id: int
    store: CountingStore
    cluster: Membership
    topics: TopicCatalog
    groups: GroupCoordinator
    services: Services
    is_dead: bool = False

    def context(self, version: int, client_id: str | None = "c") -> RequestContext:
        """The context of a request in this version."""
        return RequestContext(
            services=self.services,
            api_key=0,
            api_version=version,
            correlation_id=1,
            client_id=client_id,
            connection_id=1,
            peer="127.0.0.1:5",
            release=lambda: None,
        )

    def kill(self) -> None:
        """The process is gone: its store does nothing any more, its sessions end by themselves."""
        self.is_dead = True
        self.store.crash()

    async def stop(self) -> None:
        """A clean stop."""
        await self.groups.close()
        await self.topics.close()
        await self.cluster.close()
        await self.store.close()


@dataclass
class World:
    """The shared state, and the brokers on it."""

    loop: SimLoop
    settings: GroupSettings = field(default_factory=GroupSettings)
    brokers: list[Broker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = SimClock(self.loop)
        self.runtime = Runtime(self.clock, random.Random(7), InlineOffload())
        self.state = MemoryState(self.clock)
        self.checks_registration = False
        """Whether what brokers write of groups depends on their registration."""

    def store(self) -> CountingStore:
        """Another client of the store."""
        return CountingStore(self.runtime, self.state)

    async def start(self, count: int = 1) -> list[Broker]:
        """Start brokers, with ids that follow those of the others."""
        started = [await self._start(len(self.brokers) + i + 1) for i in range(count)]
        self.brokers += started
        return started

    async def _start(self, broker_id: int) -> Broker:
        store = self.store()
        me = BrokerRecord(broker_id, "127.0.0.1", 9091 + broker_id, 0, "test")
        cluster = Membership(store, "c", me, session_ttl_ms=SESSION_TTL_MS)
        await cluster.start()
        topics = TopicCatalog(store, self.runtime, TopicDefaults(), lambda: [broker_id])
        await topics.start()
        groups = GroupCoordinator(
            store,
            self.runtime,
            topics,
            cluster,
            self.settings,
            KINDS,
            session_ttl_ms=SESSION_TTL_MS,
            registration=cluster.registration if self.checks_registration else None,
        )
        await groups.start()
        unused = cast(Any, None)
        services = Services(
            log=unused,
            topics=topics,
            cluster=cluster,
            producer_ids=unused,
            settings=KafkaSettings(),
            metrics=Metrics(),
            runtime=self.runtime,
            broker_configs={},
            groups=groups,
            offsets=unused,
        )
        return Broker(broker_id, store, cluster, topics, groups, services)

    def stored_keys(self, prefix: str = keys.GROUPS_PREFIX) -> list[str]:
        """Every key under the prefix, without it."""
        rows = self.state.scan(prefix, prefix_end(prefix), 100_000)
        return [row.key[len(prefix) :] for row in rows]

    def holder(self, group_id: str = GROUP) -> int | None:
        """Who has the group's lease, from the store itself."""
        row = self.state.get(keys.lease(group_id))
        return None if row is None else keys.GroupLease.decode(row.value).broker_id

    def root_state(self, group_id: str = GROUP) -> str | None:
        """The name of the group's state, from the store itself."""
        row = self.state.get(keys.state(group_id))
        return None if row is None else keys.GroupRoot.decode(row.value).state_name

    def member_ids(self, group_id: str = GROUP) -> list[str]:
        """The members, from the store itself."""
        row = self.state.get(keys.state(group_id))
        if row is None:
            return []
        return [packed["id"] for packed in keys.GroupRoot.decode(row.value).fields["members"]]

    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return self.clock.monotonic_ms()


def in_virtual_time(
    test: Callable[[World], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """A test that runs in a world of its own; its brokers are stopped afterwards."""

    async def body(world: World) -> None:
        try:
            await test(world)
        finally:
            for broker in world.brokers:
                await broker.stop()

    def run() -> None:
        loop = SimLoop()
        try:
            loop.run_until_complete(body(World(loop)))
        finally:
            loop.demolish()
        assert not loop.complaints

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    return run


@dataclass
class TalkingMember:
    """A classic consumer as clients are: it joins, syncs and beats; told to, it starts over."""

    broker: Broker
    group_id: str = GROUP
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    interval_s: float = 3.0
    metadata: bytes = b"m"
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    is_stable: asyncio.Event = field(default_factory=asyncio.Event)
    errors: list[ErrorCode] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    assignment: bytes = b""
    history: list[tuple[int, bytes]] = field(default_factory=list)

    def start(self) -> TalkingMember:
        """Run until stopped."""
        self.task = asyncio.create_task(self._run())
        return self

    async def crash(self) -> None:
        """Fall silent without a word."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    async def leave(self) -> ErrorCode:
        """Stop and say so."""
        await self.crash()
        request = LeaveGroupRequest(
            group_id=self.group_id,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)],
        )
        answer = await handle_leave_group(request, self.broker.context(5))
        assert answer is not None
        return ErrorCode(answer.members[0].error_code)

    async def _run(self) -> None:
        while True:
            if not self.is_stable.is_set() and not await self._join_and_sync():
                await asyncio.sleep(0.1)
                continue
            await asyncio.sleep(self.interval_s)
            error = await self.beat()
            if error is not ErrorCode.NONE:
                self.errors.append(error)
                self.is_stable.clear()
                if error is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""

    async def beat(self) -> ErrorCode:
        """One heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        answer = await handle_heartbeat(request, self.broker.context(4))
        assert answer is not None
        return ErrorCode(answer.error_code)

    async def join(self) -> Any:
        """One JoinGroup, with a second one when the first only gives an id."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.metadata)],
        )
        answer = await handle_join_group(request, self.broker.context(9))
        assert answer is not None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self.join()
        return answer

    async def sync(self, joined: Any) -> Any:
        """One SyncGroup; the leader gives every member its own id."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=m.member_id, assignment=m.member_id.encode())
                for m in joined.members
            ],
        )
        return await handle_sync_group(request, self.broker.context(5))

    async def _join_and_sync(self) -> bool:
        joined = await self.join()
        if joined.error_code:
            self.errors.append(ErrorCode(joined.error_code))
            if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return False
        self.member_id, self.generation = joined.member_id, joined.generation_id
        synced = await self.sync(joined)
        if synced.error_code:
            self.errors.append(ErrorCode(synced.error_code))
            return False
        self.assignment = synced.assignment
        self.history.append((self.generation, synced.assignment))
        self.is_stable.set()
        return True


async def eventually(look: Callable[[], bool], within_s: float = 600.0) -> None:
    """Let virtual time pass until `look` is true; fails if it is not in time."""
    for _ in range(int(within_s / LOOK_EVERY_S) + 1):
        if look():
            return
        await asyncio.sleep(LOOK_EVERY_S)
    raise AssertionError(f"it did not happen within {within_s} s of virtual time")


async def stable_group(members: Sequence[TalkingMember]) -> None:
    """Start the members and wait until all are part of one generation."""
    for member in members:
        member.start()
    await all_stable(members)


async def all_stable(members: Sequence[TalkingMember]) -> None:
    """Wait until all members are part of one generation."""
    while True:
        for member in members:
            await member.is_stable.wait()
        errors = [await member.beat() for member in members]
        if not any(errors) and len({member.generation for member in members}) == 1:
            return
        await asyncio.sleep(0.5)
