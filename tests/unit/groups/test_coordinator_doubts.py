"""What a holder does when it cannot be sure: it slept, its news were lost, its writes came late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.groups.helpers_cluster import (
    GROUP,
    SESSION_TTL_MS,
    Broker,
    CountingStore,
    Fault,
    TalkingMember,
    World,
    all_stable,
    in_virtual_time,
    stable_group,
)

from towpath.groups.leases import GroupLeases
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import GroupLease
from towpath.metadata.store import (
    ANY,
    ChangeSet,
    Expect,
    OutcomeUnknown,
    Session,
    StoreUnavailable,
)

SESSION_S = 10.0
LEASE = keys.lease(GROUP)


async def silent_and_staying(broker: Broker, other: Broker) -> tuple[TalkingMember, TalkingMember]:
    """A stable group whose holder is `broker`, with one member that has just fallen silent."""
    silent, staying = TalkingMember(broker), TalkingMember(other)
    await stable_group([silent, staying])
    await silent.beat()
    await silent.crash()
    return silent, staying


@in_virtual_time
async def test_a_lease_taken_again_gives_everybody_the_full_time(world: World) -> None:
    [broker] = await world.start()
    silent, _ = await silent_and_staying(broker, broker)
    await asyncio.sleep(SESSION_S - 1)
    session = broker.groups._leases._session
    assert session is not None
    world.state.end_session(session.session_id)
    await asyncio.sleep(SESSION_S - 1)
    assert silent.member_id in world.member_ids()
    await asyncio.sleep(2)
    assert silent.member_id not in world.member_ids()


@in_virtual_time
async def test_a_member_seen_since_it_was_looked_at_is_not_removed(world: World) -> None:
    [broker] = await world.start()
    silent, _ = await silent_and_staying(broker, broker)
    due_ms = world.now_ms() + 1_000 * int(SESSION_S)
    barriers = 0
    barrier = broker.store.barrier

    async def note_at_the_second() -> None:
        nonlocal barriers
        await barrier()
        if world.now_ms() >= due_ms:
            # The first one belongs to the look, the second one to the step that follows.
            barriers += 1
            if barriers == 2:
                broker.groups.seen(GROUP, silent.member_id)

    broker.store.barrier = note_at_the_second  # type: ignore[method-assign]
    await asyncio.sleep(SESSION_S + 1)
    assert barriers >= 2
    assert silent.member_id in world.member_ids()
    await asyncio.sleep(SESSION_S)
    assert silent.member_id not in world.member_ids()


@in_virtual_time
async def test_a_holder_that_has_lost_its_lease_removes_nobody(world: World) -> None:
    one, other = await world.start(2)
    silent, _ = await silent_and_staying(one, other)
    assert world.holder() == one.broker_id

    async def lose_lease() -> None:
        # Meanwhile the member talks to the other broker, which has the lease now.
        world.state.write((), [LEASE])
        await asyncio.sleep(0.1)
        await silent.beat()

    one.groups._adoption.lease_vanished = lambda group_id: None  # type: ignore[method-assign]
    one.store.faults = [Fault("commit", keys.state(GROUP), action=lose_lease)]
    silent.broker = other
    await asyncio.sleep(SESSION_S + 1)
    assert not one.store.faults
    assert silent.member_id in world.member_ids()
    await asyncio.sleep(SESSION_S + 1)
    assert silent.member_id not in world.member_ids()


@in_virtual_time
async def test_digests_that_a_gap_in_the_watch_has_hidden_are_read(world: World) -> None:
    one, other = await world.start(2)
    here, there = TalkingMember(one), TalkingMember(other)
    await stable_group([here])
    await stable_group([there])
    await all_stable([here, there])
    assert world.holder() == one.broker_id
    member_id = there.member_id
    watch = one.groups._watch
    assert watch is not None
    watch.cancel()
    one.groups._watch = one.store.watch(keys.GROUPS_PREFIX, without_digests(one))
    for _ in range(12):
        await asyncio.sleep(SESSION_S / 4)
        one.groups._on_change(ChangeSet(resync=True))
    assert member_id in world.member_ids()
    await there.crash()
    for _ in range(12):
        await asyncio.sleep(SESSION_S / 4)
        one.groups._on_change(ChangeSet(resync=True))
    assert world.member_ids() == [here.member_id]


def without_digests(broker: Broker) -> Any:
    """The broker's watch, but for digests."""

    def deliver(changes: ChangeSet) -> None:
        kept = tuple(c for c in changes.changes if keys.parse(c.key).kind != keys.SEEN)
        broker.groups._on_change(ChangeSet(kept, changes.resync))

    return deliver


# Leases whose writes have unknown outcomes


class LateStore(CountingStore):
    """The first put of a lease is not answered, and happens when the second one comes."""

    late: tuple[str, bytes, Session | None] | None = None

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        if key == LEASE and self.late is None:
            self.late = (key, value, session)
            raise OutcomeUnknown("late")
        if key == LEASE and self.late is not None:
            await super().put(self.late[0], self.late[1], session=self.late[2])
        return await super().put(key, value, expect=expect, session=session)


@in_virtual_time
async def test_a_lease_that_came_late_is_ours_all_the_same(world: World) -> None:
    leases = GroupLeases(LateStore(world.runtime, world.state), world.clock, 1, SESSION_TTL_MS)
    assert await leases.take(GROUP) is None
    found = await leases.take(GROUP)
    assert found is not None
    assert found.is_mine
    assert leases.doubtful == {GROUP}
    other = GroupLeases(world.store(), world.clock, 2, SESSION_TTL_MS)
    seen = await other.take(GROUP)
    assert seen is not None
    assert (seen.broker_id, seen.is_mine) == (1, False)
    await leases.close()


@in_virtual_time
async def test_a_lease_of_an_earlier_run_is_not_ours(world: World) -> None:
    before = GroupLeases(world.store(), world.clock, 1, SESSION_TTL_MS)
    await before.take(GROUP)
    await asyncio.sleep(1)
    after = GroupLeases(world.store(), world.clock, 1, SESSION_TTL_MS)
    await after.take("another")
    found = await after.find(GROUP)
    assert found is not None
    assert not found.is_mine
    await after.close()
    await before.close()


@in_virtual_time
async def test_what_could_not_be_given_back_is_removed_later(world: World) -> None:
    store = world.store()
    leases = GroupLeases(store, world.clock, 1, SESSION_TTL_MS)
    await leases.take(GROUP)
    await leases.tell(GROUP, keys.SeenDigest({"m": 1}))
    store.faults = [
        Fault("delete", LEASE, StoreUnavailable("away")),
        Fault("delete", "/seen/", StoreUnavailable("away")),
    ]
    with pytest.raises(StoreUnavailable):
        await leases.release(GROUP)
    with pytest.raises(StoreUnavailable):
        await leases.untell(GROUP)
    await leases.settle_doubts(lambda group_id: True)
    assert len(world.stored_keys()) == 2
    await leases.settle_doubts(lambda group_id: False)
    assert world.stored_keys() == []
    assert not leases.doubtful
    await leases.close()


@in_virtual_time
async def test_another_s_lease_is_not_given_back(world: World) -> None:
    leases = GroupLeases(world.store(), world.clock, 1, SESSION_TTL_MS)
    value = GroupLease(2, 7).encode()
    world.state.write([(LEASE, value)], ())
    await leases.release(GROUP)
    assert world.state.get(LEASE) is not None


@in_virtual_time
async def test_a_lease_of_an_older_session_is_ours_as_long_as_it_is_there(world: World) -> None:
    leases = GroupLeases(world.store(), world.clock, 1, SESSION_TTL_MS)
    await leases.take(GROUP)
    older, leases._session = leases._session, None
    assert older is not None
    newer = await leases._live_session()
    world.state.end_session(newer.session_id)
    found = await leases.find(GROUP)
    assert found is not None
    assert found.is_mine
    await older.close()
    assert await leases.find(GROUP) is None
