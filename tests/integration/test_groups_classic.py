"""Real consumers in classic groups: they come, go and crash, and no record is left out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions
from tests.integration.harness.admin import admin_client, create_topic, unique_name
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.group_members import GroupUnderTest, group_under_test
from tests.integration.harness.waiting import wait_until

PARTITIONS = 6
RECORDS = 600
ADMIN_TIMEOUT_S = 30.0

CLIENTS = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("aiokafka", "range"),
    ("aiokafka", "roundrobin"),
    ("kcat", "range"),
    ("kcat", "cooperative-sticky"),
]


def send(bootstrap: str, topic: str, count: int = RECORDS) -> set[tuple[int, int]]:
    """Produce records to all partitions in turn; where they lie."""
    records = [Sent(value=f"{i}".encode(), partition=i % PARTITIONS) for i in range(count)]
    offsets = produce_all(producer(bootstrap), topic, records)
    return {(record.partition, offset) for record, offset in zip(records, offsets, strict=True)}


def described(bootstrap: str, group: str) -> Any:
    client = admin_client(bootstrap)
    return client.describe_consumer_groups([group])[group].result(ADMIN_TIMEOUT_S)


def wait_state(bootstrap: str, group: str, state: ConsumerGroupState) -> None:
    wait_until(lambda: described(bootstrap, group).state == state, f"{group} is {state}")


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """The committed offsets by partition."""
    client = admin_client(bootstrap)
    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked)[group].result(ADMIN_TIMEOUT_S)
    return {p.partition: p.offset for p in found.topic_partitions}


@pytest.mark.parametrize(("library", "strategy"), CLIENTS)
def test_one_member_consumes_everything_and_commits(
    bootstrap: str, library: str, strategy: str
) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("one")
    sent = send(bootstrap, topic)
    with group_under_test(library, bootstrap, name, topic, PARTITIONS, strategy=strategy) as group:
        [member] = group.start()
        group.wait_balanced()
        group.wait_consumed(sent)
        wait_state(bootstrap, name, ConsumerGroupState.STABLE)
        group.close(member)
        wait_state(bootstrap, name, ConsumerGroupState.EMPTY)
        assert committed(bootstrap, name) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        # A second life goes on where the first has ended.
        later = send(bootstrap, topic, PARTITIONS)
        [again] = group.start()
        group.wait_consumed(later)
        assert set(again.consumed) == later


@pytest.mark.parametrize(("library", "strategy"), CLIENTS)
def test_three_members_come_go_and_crash(bootstrap: str, library: str, strategy: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("three")
    sent = send(bootstrap, topic)
    with group_under_test(library, bootstrap, name, topic, PARTITIONS, strategy=strategy) as group:
        group.start(2)
        group.wait_balanced()
        group.wait_consumed(sent)
        group.start()
        group.wait_balanced()
        _checks_while_stable(bootstrap, name, group)
        group.close(group.members[0])
        group.wait_balanced()
        group.wait_consumed(send(bootstrap, topic))
        group.start()
        group.wait_balanced()
        group.crash(group.members[1])
        group.wait_balanced()
        group.wait_consumed(send(bootstrap, topic))
        for member in list(group.members):
            group.close(member)
        wait_state(bootstrap, name, ConsumerGroupState.EMPTY)
        total = 3 * RECORDS // PARTITIONS
        assert committed(bootstrap, name) == dict.fromkeys(range(PARTITIONS), total)
    client = admin_client(bootstrap)
    assert client.delete_consumer_groups([name])[name].result(ADMIN_TIMEOUT_S) is None
    listed = client.list_consumer_groups().result(ADMIN_TIMEOUT_S)
    assert name not in [found.group_id for found in listed.valid]
    assert committed(bootstrap, name) == {}


def _checks_while_stable(bootstrap: str, name: str, group: GroupUnderTest) -> None:
    """What tools see of a group at work."""
    wait_state(bootstrap, name, ConsumerGroupState.STABLE)
    found = described(bootstrap, name)
    shown = [
        frozenset(p.partition for p in member.assignment.topic_partitions)
        for member in found.members
    ]
    assert sorted(map(sorted, shown)) == sorted(sorted(m.assigned) for m in group.members)
    client = admin_client(bootstrap)
    with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
        client.delete_consumer_groups([name])[name].result(ADMIN_TIMEOUT_S)


def test_a_static_member_that_restarts_disturbs_nobody(bootstrap: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("static")
    sent = send(bootstrap, topic)
    settings = {"session_timeout_ms": 30_000}
    with group_under_test("confluent", bootstrap, name, topic, PARTITIONS, **settings) as group:
        [staying] = group.start(instance_id="a")
        [moving] = group.start(instance_id="b")
        group.wait_balanced()
        group.wait_consumed(sent)
        before = (staying.assigned, moving.assigned)
        events = len(staying.moves)
        group.crash(moving)
        [back] = group.start(instance_id="b")
        wait_until(lambda: back.has_been_assigned, "the member is back")
        assert (staying.assigned, back.assigned) == before
        group.wait_consumed(send(bootstrap, topic))
        assert len(staying.moves) == events


def test_several_members_in_one_process(bootstrap: str) -> None:
    """Thirty members of aiokafka join and leave within one event loop."""
    count = 30
    topic, name = create_topic(bootstrap, partitions=count), unique_name("thirty")

    async def run() -> None:
        clients = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=name,
                session_timeout_ms=10_000,
                heartbeat_interval_ms=300,
            )
            for _ in range(count)
        ]
        await asyncio.gather(*(client.start() for client in clients))
        try:
            async with asyncio.timeout(60):
                while sorted(
                    tp.partition for client in clients for tp in client.assignment()
                ) != list(range(count)):
                    await asyncio.gather(*(client.getmany(timeout_ms=50) for client in clients))
        finally:
            await asyncio.gather(*(client.stop() for client in clients))

    asyncio.run(run())
    wait_state(bootstrap, name, ConsumerGroupState.EMPTY)
