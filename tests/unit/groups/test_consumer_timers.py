"""What becomes due by time in a group of the consumer protocol."""

from __future__ import annotations

from tests.unit.groups.helpers_consumer import MemoryTopics, World

from towpath.groups.settings import GroupSettings
from towpath.groups.step import Timer


def _timers(world: World) -> dict[str, Timer]:
    return {timer.name: timer for timer in world.consumers.timers(world.settings)}


def _run(world: World, timer: Timer) -> None:
    world.group = timer.step(world.group, world.env()).group


def test_every_member_has_a_session() -> None:
    world = World(MemoryTopics(orders=2))
    world.settings = GroupSettings().with_overrides({"consumer.session.timeout.ms": "50000"})
    world.join("a", "orders")
    world.join("b", "orders", instance="i")
    world.leave("b", "i", epoch=-2)
    timers = _timers(world)
    assert {name: (timer.after_ms, timer.member_id) for name, timer in timers.items()} == {
        "session a": (50_000, "a"),
        "session b": (50_000, "b"),
    }
    assert world.consumers.session_timeout_ms("a", world.settings) == 50_000
    epoch = world.consumers.epoch
    _run(world, timers["session b"])
    assert list(world.consumers.members) == ["a"]
    assert world.consumers.epoch == epoch + 1
    again = world.group
    _run(world, timers["session b"])
    assert world.group is again


def test_who_gives_up_nothing_in_time_is_removed() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders")
    world.join("b", "orders")
    assert set(_timers(world)) == {"session a", "session b"}
    world.beat("a", 1)
    timer = _timers(world)["rebalance a 1"]
    assert (timer.after_ms, timer.member_id) == (60_000, None)
    # Other heartbeats do not start it anew: the name stays.
    world.beat("a", 1, world.topics.partitions(orders=range(2)))
    assert "rebalance a 1" in _timers(world)
    _run(world, timer)
    assert list(world.consumers.members) == ["b"]
    assert world.beat("b", 2).assigned == world.topics.partitions(orders=range(2))


def test_who_gave_up_in_time_stays() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders")
    world.join("b", "orders")
    kept = world.beat("a", 1).assigned
    timer = _timers(world)["rebalance a 1"]
    world.beat("a", 1, kept)
    assert set(_timers(world)) == {"session a", "session b"}
    before = world.group
    _run(world, timer)
    assert world.group is before


def test_a_static_member_that_left_has_no_deadline_but_its_session() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders", instance="i")
    world.join("b", "orders")
    world.beat("a", 1, instance="i")
    timer = _timers(world)["rebalance a 1"]
    world.leave("a", "i", epoch=-2)
    assert set(_timers(world)) == {"session a", "session b"}
    before = world.group
    _run(world, timer)
    assert world.group is before


def test_timers_of_groups_that_are_no_more() -> None:
    world = World(MemoryTopics(orders=2))
    world.join("a", "orders")
    timers = _timers(world)
    world.group = None
    for timer in timers.values():
        _run(world, timer)
    assert world.group is None
