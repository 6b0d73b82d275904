"""Who runs a group's timers, who is alive, and what happens when brokers die."""

from __future__ import annotations

import asyncio

from tests.unit.groups.helpers_cluster import (
    GROUP,
    SESSION_TTL_MS,
    Broker,
    Fault,
    TalkingMember,
    World,
    all_stable,
    eventually,
    in_virtual_time,
    stable_group,
)

from towpath.groups import coordinator as coordinator_module
from towpath.groups.adoption import ORPHAN_INTERVAL_MS
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import SessionExpired

SESSION_S = 10.0
MINUTE_S = 60.0
SLACK_S = 0.5


def members_of(broker: Broker, count: int, **settings: object) -> list[TalkingMember]:
    return [TalkingMember(broker, **settings) for _ in range(count)]  # type: ignore[arg-type]


async def settle() -> None:
    """Let everything run that needs no time."""
    await asyncio.sleep(0.001)


# The lease


@in_virtual_time
async def test_who_serves_first_takes_the_lease(world: World) -> None:
    one, other = await world.start(2)
    assert await one.groups.holder(GROUP) is None
    await stable_group(members_of(other, 2))
    assert world.holder() == other.broker_id
    assert await one.groups.holder(GROUP) == other.broker_id
    await stable_group(members_of(one, 1))
    assert world.holder() == other.broker_id


@in_virtual_time
async def test_a_group_without_members_needs_no_holder(world: World) -> None:
    [broker] = await world.start()
    await broker.groups.view(GROUP)
    await settle()
    assert world.stored_keys() == []


@in_virtual_time
async def test_a_clean_stop_gives_the_lease_to_another_broker_at_once(world: World) -> None:
    one, other = await world.start(2)
    mine, theirs = members_of(one, 1)[0], members_of(other, 1)[0]
    await stable_group([mine, theirs])
    assert world.holder() == one.broker_id
    await mine.leave()
    await theirs.is_stable.wait()
    world.brokers.remove(one)
    await one.stop()
    await settle()
    assert world.holder() == other.broker_id


@in_virtual_time
async def test_a_lease_that_ended_by_itself_is_taken_again(world: World) -> None:
    [broker] = await world.start()
    members = members_of(broker, 2)
    await stable_group(members)
    session = broker.groups._leases._session
    assert session is not None
    world.state.end_session(session.session_id)
    await settle()
    assert world.holder() == broker.broker_id
    await members[0].crash()
    await asyncio.sleep(SESSION_S + SLACK_S)
    assert world.member_ids() == [members[1].member_id]


# Sessions


@in_virtual_time
async def test_a_silent_member_expires_when_its_session_is_over_and_not_before(
    world: World,
) -> None:
    [broker] = await world.start()
    staying, silent = members_of(broker, 2)
    await stable_group([staying, silent])
    await silent.beat()
    await silent.crash()
    await asyncio.sleep(SESSION_S - 0.1)
    assert silent.member_id in world.member_ids()
    await asyncio.sleep(0.2)
    assert world.member_ids() == [staying.member_id]
    await asyncio.sleep(staying.interval_s)
    await all_stable([staying])
    assert staying.history[-1][1] == staying.member_id.encode()


@in_virtual_time
async def test_the_last_silent_member_leaves_an_empty_group(world: World) -> None:
    [broker] = await world.start()
    members = members_of(broker, 3)
    await stable_group(members)
    for member in members:
        await member.crash()
    await asyncio.sleep(SESSION_S + SLACK_S)
    assert world.root_state() == "Empty"


@in_virtual_time
async def test_a_member_that_waits_is_alive_however_long_it_takes(world: World) -> None:
    [broker] = await world.start()
    [slow] = members_of(broker, 1, rebalance_timeout_ms=120_000)
    await stable_group([slow])
    await slow.crash()
    waiting = TalkingMember(broker).start()
    deadline_s = world.loop.time() + 5 * SESSION_S
    while world.loop.time() < deadline_s:
        await slow.beat()
        await asyncio.sleep(3)
    assert waiting.member_id in world.member_ids()
    assert not waiting.errors
    slow.start()
    await all_stable([slow, waiting])


@in_virtual_time
async def test_a_client_that_disconnects_while_it_waits_does_no_harm(world: World) -> None:
    [broker] = await world.start()
    [slow] = members_of(broker, 1, interval_s=2.0, rebalance_timeout_ms=120_000)
    await stable_group([slow])
    await slow.crash()
    gone = TalkingMember(broker).start()
    await eventually(lambda: gone.member_id in world.member_ids())
    await gone.crash()
    assert gone.member_id in world.member_ids()
    for _ in range(4):
        await asyncio.sleep(3)
        await slow.beat()
    assert world.member_ids() == [slow.member_id]


@in_virtual_time
async def test_the_slowest_to_join_is_left_behind(world: World) -> None:
    [broker] = await world.start()
    fast, slow = members_of(broker, 2, rebalance_timeout_ms=20_000)
    await stable_group([fast, slow])
    # It beats but does not join.
    await slow.crash()
    await fast.crash()
    fast.metadata = b"other"
    joining = asyncio.create_task(fast.join())
    started_s = world.loop.time()
    while not joining.done():
        await asyncio.sleep(1)
        assert await slow.beat() in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
    assert 20 <= world.loop.time() - started_s <= 22
    assert world.member_ids() == [fast.member_id]


# Members at several brokers


@in_virtual_time
async def test_a_member_that_talks_to_another_broker_does_not_expire(world: World) -> None:
    one, other = await world.start(2)
    here, there = members_of(one, 1)[0], members_of(other, 1)[0]
    await stable_group([here])
    await stable_group([there])
    await all_stable([here, there])
    generation = here.generation
    assert world.holder() == one.broker_id
    other.store.writes.clear()
    await asyncio.sleep(3 * MINUTE_S)
    assert len(world.member_ids()) == 2
    assert (await here.beat(), here.generation) == (ErrorCode.NONE, generation)
    per_minute = other.store.writes["seen"] / 3
    assert per_minute <= 60 / (SESSION_S / 3) + 1
    assert set(other.store.writes) <= {"seen", "other"}
    await there.crash()
    await asyncio.sleep(SESSION_S * 4 / 3 + SLACK_S + 1)
    assert world.member_ids() == [here.member_id]


@in_virtual_time
async def test_a_member_that_waits_at_another_broker_does_not_expire(world: World) -> None:
    one, other = await world.start(2)
    [slow] = members_of(one, 1, rebalance_timeout_ms=120_000)
    await stable_group([slow])
    await slow.crash()
    waiting = TalkingMember(other).start()
    for _ in range(20):
        await slow.beat()
        await asyncio.sleep(3)
    assert waiting.member_id in world.member_ids()
    slow.start()
    await all_stable([slow, waiting])


@in_virtual_time
async def test_a_member_that_turns_up_elsewhere_just_in_time_does_not_expire(world: World) -> None:
    one, other = await world.start(2)
    [moving] = members_of(one, 1)
    await stable_group([moving])
    await moving.beat()
    await moving.crash()
    await asyncio.sleep(SESSION_S - 0.5)
    moving.broker = other
    assert await moving.beat() is ErrorCode.NONE
    await asyncio.sleep(SESSION_S / 2)
    assert await moving.beat() is ErrorCode.NONE


@in_virtual_time
async def test_members_that_wait_at_a_broker_that_loses_the_lease_do_not_expire(
    world: World,
) -> None:
    one, other = await world.start(2)
    [slow] = members_of(one, 1, rebalance_timeout_ms=120_000)
    await stable_group([slow])
    await slow.crash()
    slow.broker = other
    waiting = TalkingMember(one).start()
    await slow.beat()
    await eventually(lambda: waiting.member_id in world.member_ids())
    session = one.groups._leases._session
    assert session is not None
    one.store.faults = [Fault("put", keys.lease(GROUP), SessionExpired("too late"))]
    world.state.end_session(session.session_id)
    await eventually(lambda: world.holder() == other.broker_id)
    for _ in range(10):
        await asyncio.sleep(3)
        assert await slow.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.member_id in world.member_ids()
    slow.start()
    await all_stable([slow, waiting])
    assert not waiting.errors


@in_virtual_time
async def test_an_idle_group_of_100_members_writes_nothing(world: World) -> None:
    one, other = await world.start(2)
    members = members_of(one, 100, session_timeout_ms=45_000)
    await stable_group(members)
    await asyncio.sleep(MINUTE_S)
    one.store.writes.clear()
    other.store.writes.clear()
    await asyncio.sleep(10 * MINUTE_S)
    assert not one.store.writes
    assert not other.store.writes
    assert not any(await asyncio.gather(*(member.beat() for member in members)))


@in_virtual_time
async def test_an_idle_group_served_elsewhere_writes_digests_only(world: World) -> None:
    one, other = await world.start(2)
    await stable_group(members_of(one, 1, session_timeout_ms=45_000))
    members = members_of(other, 99, session_timeout_ms=45_000)
    await stable_group(members)
    await asyncio.sleep(MINUTE_S)
    one.store.writes.clear()
    other.store.writes.clear()
    await asyncio.sleep(10 * MINUTE_S)
    assert not one.store.writes
    assert set(other.store.writes) == {"seen"}
    assert other.store.writes["seen"] <= 10 * (60 / 15) + 1
    assert len(world.member_ids()) == 100


# Brokers that die


@in_virtual_time
async def test_members_of_a_killed_broker_that_go_elsewhere_survive(world: World) -> None:
    one, other = await world.start(2)
    moving, lost = members_of(one, 2)
    staying = TalkingMember(other)
    await stable_group([moving, lost, staying])
    assert world.holder() == one.broker_id
    moving.broker = other
    await lost.crash()
    one.kill()
    await eventually(lambda: world.holder() == other.broker_id, SESSION_TTL_MS / 1000 + SLACK_S)
    await eventually(lambda: lost.member_id not in world.member_ids(), SESSION_S + SLACK_S)
    await asyncio.sleep(moving.interval_s)
    await all_stable([moving, staying])
    assert ErrorCode.UNKNOWN_MEMBER_ID not in [*moving.errors, *staying.errors]


@in_virtual_time
async def test_a_rebalance_goes_on_when_its_broker_is_killed(world: World) -> None:
    one, other = await world.start(2)
    first, second = TalkingMember(one), TalkingMember(other)
    await stable_group([first, second])
    third = TalkingMember(one).start()
    await eventually(lambda: world.root_state() == "PreparingRebalance")
    one.kill()
    for member in (first, third):
        await member.crash()
        member.broker = other
        member.is_stable.clear()
        member.start()
    await all_stable([first, second, third])
    await asyncio.sleep(2 * SESSION_S)
    assert world.holder() == other.broker_id
    assert len(world.member_ids()) == 3
    for member in (first, second, third):
        assert ErrorCode.UNKNOWN_MEMBER_ID not in member.errors


@in_virtual_time
async def test_members_that_died_with_their_broker_expire_though_nobody_asks(
    world: World,
) -> None:
    brokers = await world.start(3)
    for number, broker in enumerate(brokers):
        group_id = f"g{number}"
        members = members_of(broker, 2, group_id=group_id)
        await stable_group(members)
        for member in members:
            await member.crash()
    brokers[0].kill()
    lease_s = (SESSION_TTL_MS + 2 * ORPHAN_INTERVAL_MS) / 1000
    await eventually(lambda: world.root_state("g0") == "Empty", lease_s + SESSION_S + SLACK_S)


@in_virtual_time
async def test_a_group_that_nobody_serves_is_found_at_the_start(world: World) -> None:
    [one] = await world.start()
    members = members_of(one, 2)
    await stable_group(members)
    for member in members:
        await member.crash()
    one.kill()
    await asyncio.sleep(2 * SESSION_TTL_MS / 1000)
    assert world.holder() is None
    await world.start()
    await asyncio.sleep(SESSION_S + SLACK_S)
    assert world.root_state() == "Empty"


# Memory


@in_virtual_time
async def test_groups_that_nobody_asks_for_are_forgotten(world: World) -> None:
    [broker] = await world.start()
    member = TalkingMember(broker)
    await stable_group([member])
    for number in range(20):
        await broker.groups.view(f"asked-{number}")
    assert len(broker.groups._actors) == 21
    forgotten_after_s = (
        coordinator_module.IDLE_MS + coordinator_module.TIDY_INTERVAL_MS
    ) / 1000 + 1
    await asyncio.sleep(forgotten_after_s)
    assert list(broker.groups._actors) == [GROUP]
    await member.leave()
    await asyncio.sleep(forgotten_after_s)
    assert not broker.groups._actors
    assert not broker.groups._by_segment
    # The lease was given back, and the group is there when it is wanted again.
    assert world.stored_keys() == [f"{GROUP}/{keys.STATE}"]
    await stable_group([TalkingMember(broker)])


@in_virtual_time
async def test_a_digest_goes_with_the_actor(world: World) -> None:
    one, other = await world.start(2)
    here, there = TalkingMember(one), TalkingMember(other)
    await stable_group([here, there])
    await asyncio.sleep(MINUTE_S)
    assert f"{GROUP}/seen/{other.broker_id:010d}" in world.stored_keys()
    await there.leave()
    await asyncio.sleep(3 * MINUTE_S)
    assert f"{GROUP}/seen/{other.broker_id:010d}" not in world.stored_keys()


@in_virtual_time
async def test_a_broker_that_saw_an_empty_group_without_holder_takes_its_lease_later(
    world: World,
) -> None:
    one, other = await world.start(2)
    member = members_of(other, 1)[0]
    await stable_group([member])
    await one.groups.view(GROUP)
    await member.leave()
    world.brokers.remove(other)
    await other.stop()
    # For whatever reason the broker looks: the group is empty, and nobody has the lease.
    one.groups._actors[GROUP].duty.digest_changed(other.broker_id)
    await settle()
    assert world.holder() is None
    late = members_of(one, 1)[0]
    await stable_group([late])
    assert world.holder() == one.broker_id
    await late.crash()
    await asyncio.sleep(SESSION_S + SLACK_S)
    assert world.member_ids() == []
