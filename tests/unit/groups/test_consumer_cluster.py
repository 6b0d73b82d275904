"""The consumer protocol on brokers that share one store, in virtual time."""

from __future__ import annotations

import asyncio

from tests.unit.groups.helpers_cluster import (
    GROUP,
    SESSION_TTL_MS,
    TalkingMember,
    World,
    eventually,
    in_virtual_time,
)
from tests.unit.groups.helpers_talking_consumer import (
    TalkingConsumer,
    all_assigned,
    state_of,
    writes,
)

from towpath.kafka.apis.consumer_group_describe import handle_consumer_group_describe
from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from towpath.topics.interface import NewTopic

SESSION_S = 45.0
INTERVAL_S = 5.0
SLACK_S = 0.5
PARTITIONS = 12


async def make_topic(world: World, name: str = "orders", partitions: int = PARTITIONS) -> None:
    await world.brokers[0].topics.create(NewTopic(name, partitions=partitions))


@in_virtual_time
async def test_members_at_several_brokers_share_everything(world: World) -> None:
    brokers = await world.start(3)
    await make_topic(world)
    members = [TalkingConsumer(brokers[number % 3]).start() for number in range(7)]
    await all_assigned(members, PARTITIONS)
    assert [await member.leave() for member in members] == [ErrorCode.NONE] * 7
    assert (await state_of(brokers[2])).is_empty


@in_virtual_time
async def test_a_stable_group_writes_nothing(world: World) -> None:
    [broker] = await world.start()
    await make_topic(world, partitions=100)
    members = [TalkingConsumer(broker).start() for _ in range(100)]
    await all_assigned(members, 100)
    await asyncio.sleep(2 * INTERVAL_S)
    before = dict(broker.store.writes)
    beats = sum(len(member.answers) for member in members)
    await asyncio.sleep(60)
    assert sum(len(member.answers) for member in members) - beats >= 100 * 11
    for kind in ("state", "blobs", "seen"):
        assert broker.store.writes[kind] == before.get(kind, 0)


@in_virtual_time
async def test_a_silent_member_loses_its_partitions_in_time(world: World) -> None:
    one, other = await world.start(2)
    await make_topic(world)
    members = [TalkingConsumer(broker).start() for broker in (one, other, other)]
    await all_assigned(members, PARTITIONS)
    await members[1].crash()
    died_ms = world.now_ms()
    rest = [members[0], members[2]]
    await all_assigned(rest, PARTITIONS)
    took_s = (world.now_ms() - died_ms) / 1000
    # The others learn of it by their next heartbeats; the digest tells when it was last seen.
    assert took_s <= SESSION_S + 2 * INTERVAL_S + SLACK_S
    assert not rest[0].errors


@in_virtual_time
async def test_who_gives_up_nothing_is_removed_by_its_own_time_out(world: World) -> None:
    [broker] = await world.start()
    await make_topic(world)
    stubborn = TalkingConsumer(broker, rebalance_timeout_ms=20_000).start()
    await all_assigned([stubborn], PARTITIONS)
    stubborn.never_gives_up = True
    newcomer = TalkingConsumer(broker).start()
    began_ms = world.now_ms()
    await eventually(lambda: ErrorCode.UNKNOWN_MEMBER_ID in stubborn.errors)
    assert 20 <= (world.now_ms() - began_ms) / 1000 <= 20 + 2 * INTERVAL_S + SLACK_S
    stubborn.never_gives_up = False
    await all_assigned([stubborn, newcomer], PARTITIONS)


@in_virtual_time
async def test_the_holder_dies_in_the_middle_of_a_rebalance(world: World) -> None:
    one, other = await world.start(2)
    await make_topic(world)
    members = [TalkingConsumer(broker).start() for broker in (one, other)]
    await all_assigned(members, PARTITIONS)
    assert world.holder() == one.broker_id
    third = TalkingConsumer(other).start()
    await asyncio.sleep(0.005)
    one.kill()
    await members[0].crash()
    members[0].broker = other
    members[0].start()
    await all_assigned([*members, third], PARTITIONS)
    # Nobody that kept talking was fenced, and somebody else runs the timers now.
    assert ErrorCode.UNKNOWN_MEMBER_ID not in members[1].errors + third.errors
    await eventually(lambda: world.holder() == other.broker_id, SESSION_TTL_MS / 1000 + 60)
    await third.crash()
    await all_assigned(members, PARTITIONS, SESSION_S + SESSION_TTL_MS / 1000 + 60)


@in_virtual_time
async def test_members_that_move_to_another_broker_stay(world: World) -> None:
    one, other = await world.start(2)
    await make_topic(world)
    members = [TalkingConsumer(one).start() for _ in range(2)]
    await all_assigned(members, PARTITIONS)
    members[0].broker = other
    await asyncio.sleep(3 * SESSION_S)
    assert not members[0].errors
    await all_assigned(members, PARTITIONS)


@in_virtual_time
async def test_topics_that_grow_and_expressions(world: World) -> None:
    brokers = await world.start(2)
    await make_topic(world, "logs-a", 3)
    members = [TalkingConsumer(broker, topics=(), regex="logs-.*").start() for broker in brokers]
    await all_assigned(members, 3)
    await make_topic(world, "logs-b", 4)
    await all_assigned(members, 7)
    await brokers[1].topics.add_partitions("logs-a", 6, None)
    await all_assigned(members, 10)


@in_virtual_time
async def test_a_static_member_comes_back_in_time(world: World) -> None:
    one, other = await world.start(2)
    await make_topic(world)
    static = TalkingConsumer(one, instance_id="i").start()
    members = [static, TalkingConsumer(other).start()]
    await all_assigned(members, PARTITIONS)
    had, epoch = static.owns, (await state_of(one)).epoch
    assert await static.leave(-2) is ErrorCode.NONE
    await asyncio.sleep(SESSION_S - 10)
    again = TalkingConsumer(other, instance_id="i").start()
    await all_assigned([again, members[1]], PARTITIONS, 2 * INTERVAL_S)
    assert again.owns == had
    assert (await state_of(one)).epoch == epoch


@in_virtual_time
async def test_a_static_member_that_does_not_come_back(world: World) -> None:
    [broker] = await world.start()
    await make_topic(world)
    members = [TalkingConsumer(broker, instance_id=name).start() for name in "ij"]
    await all_assigned(members, PARTITIONS)
    await members[0].leave(-2)
    await all_assigned(members[1:], PARTITIONS, SESSION_S + 2 * INTERVAL_S + SLACK_S)


@in_virtual_time
async def test_settings_of_the_group_are_in_force_at_once(world: World) -> None:
    one, other = await world.start(2)
    await make_topic(world)
    member = TalkingConsumer(one)
    assert (await member.beat()).heartbeat_interval_ms == 5_000
    await other.groups.configs.change(
        GROUP, {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "60000"}
    )
    assert (await member.beat()).heartbeat_interval_ms == 7_000
    await asyncio.sleep(SESSION_S + 10)
    assert not (await state_of(other)).is_empty
    await asyncio.sleep(10)
    assert (await state_of(other)).is_empty


@in_virtual_time
async def test_the_protocols_exclude_each_other_while_there_are_members(world: World) -> None:
    [broker] = await world.start()
    await make_topic(world)
    classic = TalkingMember(broker, metadata=b"").start()
    await eventually(classic.is_stable.is_set)
    member = TalkingConsumer(broker)
    assert (await member.beat()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await classic.leave()
    assert (await member.beat()).error_code == ErrorCode.NONE
    assert (await TalkingMember(broker).join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@in_virtual_time
async def test_descriptions(world: World) -> None:
    one, other = await world.start(2)
    await make_topic(world, partitions=2)
    member = TalkingConsumer(one, instance_id="i")
    await member.beat()
    request = ConsumerGroupDescribeRequest(
        group_ids=["", GROUP, "nobody"], include_authorized_operations=True
    )
    response = await handle_consumer_group_describe(request, other.context(1))
    assert response is not None
    nameless, found, nobody = response.groups
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert nobody.error_message == "Group nobody not found."
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)
    assert (found.assignor_name, found.authorized_operations) == ("uniform", 3400)
    described = found.members[0]
    assert (described.member_id, described.instance_id) == (member.member_id, "i")
    assert (described.member_epoch, described.member_type) == (1, 1)
    assert (described.client_id, described.client_host) == ("c", "/127.0.0.1")
    assert (described.subscribed_topic_names, described.subscribed_topic_regex) == (["orders"], "")
    for assignment in (described.assignment, described.target_assignment):
        [topic] = assignment.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("orders", [0, 1])
    [listed] = await other.groups.list_groups()
    assert (listed.kind, listed.state_name, listed.protocol_type) == (
        "consumer",
        "Stable",
        "consumer",
    )


@in_virtual_time
async def test_a_deleted_topic_has_no_name_to_show(world: World) -> None:
    [broker] = await world.start()
    await make_topic(world)
    await TalkingConsumer(broker).beat()
    topic = broker.topics.get("orders")
    assert topic is not None
    await broker.topics.delete(topic)
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    response = await handle_consumer_group_describe(request, broker.context(0))
    assert response is not None
    assert not response.groups[0].members[0].assignment.topic_partitions


@in_virtual_time
async def test_three_hundred_members_come_at_once(world: World) -> None:
    brokers = await world.start(2)
    await make_topic(world, partitions=300)
    members = [TalkingConsumer(brokers[number % 2]).start() for number in range(300)]
    await all_assigned(members, 300)
    assert writes(world) < 300 * 12
