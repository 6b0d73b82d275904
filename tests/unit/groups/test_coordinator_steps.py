"""Steps through the coordinator: batches, conflicts, failures of the store, waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.groups.helpers_classic import join_request
from tests.unit.groups.helpers_cluster import GROUP, Fault, World, in_virtual_time

from towpath.errors import GroupUnavailable
from towpath.groups.actor import ATTEMPTS_MAX
from towpath.groups.classic.state import ClassicGroup
from towpath.groups.registration import Asked
from towpath.groups.settings import CONSUMER_SESSION_TIMEOUT_MS
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome
from towpath.metadata.keys import groups as keys
from towpath.metadata.store import ChangeSet, OutcomeUnknown, StoreUnavailable, VersionConflict

ROOT = keys.state(GROUP)


def raise_generation(state: GroupState | None, env: Env) -> Outcome[int]:
    """Count in the group's generation."""
    group = state if isinstance(state, ClassicGroup) else ClassicGroup()
    return Outcome(replace(group, generation=group.generation + 1), group.generation + 1)


def read_generation(state: GroupState | None, env: Env) -> Outcome[int]:
    """Change nothing."""
    return Outcome(state, state.epoch if state is not None else 0)


@in_virtual_time
async def test_steps_that_wait_together_are_stored_together(world: World) -> None:
    [broker] = await world.start()
    answers = await asyncio.gather(
        *(broker.groups.apply(GROUP, raise_generation) for _ in range(50))
    )
    assert answers == list(range(1, 51))
    assert broker.store.writes["state"] == 1


@in_virtual_time
async def test_a_step_that_changes_nothing_writes_nothing(world: World) -> None:
    [broker] = await world.start()
    assert await broker.groups.apply(GROUP, read_generation) == 0
    assert world.stored_keys() == []
    await broker.groups.apply(GROUP, raise_generation)
    assert await broker.groups.apply(GROUP, read_generation) == 1
    assert broker.store.writes["state"] == 1


@in_virtual_time
async def test_two_brokers_lose_no_step_of_each_other(world: World) -> None:
    one, other = await world.start(2)
    one.store.latency_s = other.store.latency_s = 0.001
    answers = await asyncio.gather(
        *(
            broker.groups.apply(GROUP, raise_generation)
            for _ in range(40)
            for broker in (one, other)
        )
    )
    assert sorted(answers) == list(range(1, 81))
    for broker in (one, other):
        view = await broker.groups.view(GROUP)
        assert view.state is not None
        assert view.state.epoch == 80


@in_virtual_time
async def test_a_conflict_that_never_ends_is_told(world: World) -> None:
    [broker] = await world.start()
    await broker.groups.apply(GROUP, raise_generation)
    conflict = VersionConflict(ROOT, 99)
    broker.store.faults = [Fault("put", ROOT, conflict) for _ in range(ATTEMPTS_MAX)]
    with pytest.raises(GroupUnavailable):
        await broker.groups.apply(GROUP, raise_generation)
    assert await broker.groups.apply(GROUP, raise_generation) == 2


@in_virtual_time
async def test_a_lost_answer_is_not_done_twice(world: World) -> None:
    [broker] = await world.start()
    broker.store.faults = [Fault("put", ROOT, OutcomeUnknown("lost"), after=True)]
    assert await broker.groups.apply(GROUP, raise_generation) == 1
    assert await broker.groups.apply(GROUP, read_generation) == 1


@in_virtual_time
async def test_a_write_that_may_have_been_lost_is_repeated(world: World) -> None:
    [broker] = await world.start()
    broker.store.faults = [Fault("put", ROOT, OutcomeUnknown("lost"))]
    assert await broker.groups.apply(GROUP, raise_generation) == 1
    assert await broker.groups.apply(GROUP, read_generation) == 1


@in_virtual_time
async def test_a_store_that_is_away_changes_nothing_and_is_told(world: World) -> None:
    [broker] = await world.start()
    broker.store.faults = [Fault("put", ROOT, StoreUnavailable("away"))]
    with pytest.raises(GroupUnavailable):
        await broker.groups.apply(GROUP, raise_generation)
    broker.groups._on_change(ChangeSet(resync=True))
    broker.store.faults = [Fault("get", ROOT, StoreUnavailable("away"))]
    with pytest.raises(GroupUnavailable):
        await broker.groups.view(GROUP)
    assert await broker.groups.apply(GROUP, raise_generation) == 1


@in_virtual_time
async def test_a_step_that_raises_harms_no_other(world: World) -> None:
    [broker] = await world.start()

    def fail(state: GroupState | None, env: Env) -> Outcome[int]:
        raise RuntimeError("a fault of the step")

    results = await asyncio.gather(
        *(broker.groups.apply(GROUP, step) for step in (raise_generation, fail, raise_generation)),
        return_exceptions=True,
    )
    assert results[0] == 1
    assert isinstance(results[1], RuntimeError)
    assert results[2] == 2


@in_virtual_time
async def test_a_caller_that_gives_up_does_not_take_its_step_back(world: World) -> None:
    [broker] = await world.start()
    broker.store.latency_s = 0.01
    task = asyncio.create_task(broker.groups.apply(GROUP, raise_generation))
    await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await broker.groups.apply(GROUP, read_generation) == 1


# Views and waits


@in_virtual_time
async def test_a_view_sees_what_another_broker_has_done(world: World) -> None:
    one, other = await world.start(2)
    assert (await other.groups.view(GROUP)).state is None
    for generation in range(1, 6):
        await one.groups.apply(GROUP, raise_generation)
        view = await other.groups.view(GROUP)
        assert view.state is not None
        assert view.state.epoch == generation
        assert view.version == world.state.version_of(ROOT)


@in_virtual_time
async def test_a_view_of_a_group_in_memory_reads_nothing(world: World) -> None:
    [broker] = await world.start()
    await broker.groups.apply(GROUP, raise_generation)
    broker.store.faults = [Fault("get", ROOT, StoreUnavailable("asked"))]
    assert (await broker.groups.view(GROUP)).version is not None


def at_least(generation: int) -> Callable[[GroupState | None], int | None]:
    def look(state: GroupState | None) -> int | None:
        return state.epoch if state is not None and state.epoch >= generation else None

    return look


@in_virtual_time
async def test_a_wait_ends_with_a_state_made_here_or_elsewhere(world: World) -> None:
    one, other = await world.start(2)
    waits = [
        asyncio.create_task(broker.groups.until(GROUP, at_least(2))) for broker in (one, other)
    ]
    await one.groups.apply(GROUP, raise_generation)
    await asyncio.sleep(1)
    assert not any(wait.done() for wait in waits)
    await one.groups.apply(GROUP, raise_generation)
    assert await asyncio.gather(*waits) == [2, 2]
    assert await other.groups.until(GROUP, at_least(1)) == 2


@in_virtual_time
async def test_a_wait_outlives_a_store_that_is_away(world: World) -> None:
    one, other = await world.start(2)
    wait = asyncio.create_task(other.groups.until(GROUP, at_least(1)))
    await asyncio.sleep(1)
    other.store.faults = [Fault("get", ROOT, StoreUnavailable("away")) for _ in range(3)]
    await one.groups.apply(GROUP, raise_generation)
    assert await wait == 1


@in_virtual_time
async def test_a_wait_sees_what_a_gap_in_the_watch_has_hidden(world: World) -> None:
    one, other = await world.start(2)
    wait = asyncio.create_task(other.groups.until(GROUP, at_least(1)))
    await asyncio.sleep(1)
    watch = other.groups._watch
    assert watch is not None
    watch.cancel()
    await one.groups.apply(GROUP, raise_generation)
    await asyncio.sleep(1)
    assert not wait.done()
    other.groups._on_change(ChangeSet(resync=True))
    assert await wait == 1


@in_virtual_time
async def test_a_look_that_raises_ends_its_own_wait_only(world: World) -> None:
    [broker] = await world.start()

    def fail(state: GroupState | None) -> int | None:
        if state is None:
            return None
        raise RuntimeError("a fault of the look")

    failing = asyncio.create_task(broker.groups.until(GROUP, fail))
    waiting = asyncio.create_task(broker.groups.until(GROUP, at_least(1)))
    await asyncio.sleep(1)
    await broker.groups.apply(GROUP, raise_generation)
    assert await waiting == 1
    with pytest.raises(RuntimeError, match="look"):
        await failing


@in_virtual_time
async def test_whoever_waits_at_a_broker_that_stops_is_told(world: World) -> None:
    [broker] = await world.start()
    wait = asyncio.create_task(broker.groups.until(GROUP, at_least(1)))
    await asyncio.sleep(1)
    await broker.groups.close()
    with pytest.raises(GroupUnavailable):
        await wait
    with pytest.raises(GroupUnavailable):
        await broker.groups.apply(GROUP, raise_generation)


# Settings and listings


@in_virtual_time
async def test_a_group_s_own_settings_reach_its_steps(world: World) -> None:
    one, other = await world.start(2)

    def session(state: GroupState | None, env: Env) -> Outcome[int]:
        return Outcome(state, env.settings.consumer_session_timeout_ms)

    assert await one.groups.apply(GROUP, session) == 45_000
    config = keys.GroupConfig({CONSUMER_SESSION_TIMEOUT_MS: "50000"})
    await other.store.put(keys.config(GROUP), config.encode())
    assert await one.groups.apply(GROUP, session) == 50_000
    assert (await other.groups.view(GROUP)).settings.consumer_session_timeout_ms == 50_000
    await other.store.delete(keys.config(GROUP))
    assert await one.groups.apply(GROUP, session) == 45_000


@in_virtual_time
async def test_groups_are_listed_by_any_broker(world: World) -> None:
    one, other = await world.start(2)
    for group_id in ("b/c", "", "ü", "a"):
        await one.groups.apply(group_id, raise_generation)
        await one.store.put(keys.offset(group_id, "t", 1), b"{}")
    await one.groups.apply("joined", join_request())
    await one.store.put(keys.config("configured"), keys.GroupConfig({}).encode())
    await one.store.put(keys.GROUPS_PREFIX + "not ours", b"")
    listed = await other.groups.list_groups()
    assert sorted(group.group_id for group in listed) == ["", "a", "b/c", "joined", "ü"]
    by_id = {group.group_id: group for group in listed}
    assert by_id["a"].state_name == "Empty"
    assert (by_id["a"].kind, by_id["a"].protocol_type) == ("classic", "")


@in_virtual_time
async def test_a_root_of_a_newer_release_is_left_alone(world: World) -> None:
    [broker] = await world.start()
    await broker.store.put(ROOT, b'{"version":2}')
    with pytest.raises(GroupUnavailable):
        await broker.groups.view(GROUP)
    with pytest.raises(GroupUnavailable):
        await broker.groups.apply(GROUP, raise_generation)
    assert await broker.groups.list_groups() == []
    assert world.state.get(ROOT).value == b'{"version":2}'  # type: ignore[union-attr]


@in_virtual_time
async def test_what_was_asked_for_before_the_broker_was_taken_for_dead_is_refused(
    world: World,
) -> None:
    world.checks_registration = True
    [broker] = await world.start()
    await broker.groups.apply(GROUP, raise_generation)
    came = broker.groups.asked()
    assert came.alive is not None
    # The others take it for dead, which it does not know yet.
    world.state.write((), [came.alive.key])
    with pytest.raises(GroupUnavailable):
        await broker.groups.apply(GROUP, raise_generation, came)
    while broker.groups.asked() in (came, Asked(None)):  # noqa: ASYNC110 - time is simulated.
        await asyncio.sleep(1)
    with pytest.raises(GroupUnavailable):
        await broker.groups.apply(GROUP, raise_generation, came)
    assert await broker.groups.apply(GROUP, read_generation) == 1
    assert await broker.groups.apply(GROUP, raise_generation) == 2
