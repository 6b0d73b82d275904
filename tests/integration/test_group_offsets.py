"""Committed offsets with real clients: commit, fetch, and what survives a kill."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from tests.integration.conftest import Broker
from tests.integration.harness.admin import (
    REQUEST_TIMEOUT_S,
    admin_client,
    create_topic,
    unique_name,
)
from tests.integration.harness.clients import Sent, produce_all, producer, take
from tests.integration.harness.kafka_python import KafkaConsumer
from tests.integration.harness.kafka_python import TopicPartition as PythonPartition
from tests.integration.harness.separate_brokers import SeparateBrokers
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

PARTITIONS = 3


@contextmanager
def consumer(bootstrap: str, group: str, **settings: Any) -> Iterator[Any]:
    """A confluent consumer that commits only when told to."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **named,
        }
    )
    try:
        yield client
    finally:
        client.close()


def committed(client: Any, topic: str) -> dict[int, int]:
    """The group's offsets as the client fetches them; those that are not there are left out."""
    asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = client.committed(asked, timeout=REQUEST_TIMEOUT_S)
    assert all(partition.error is None for partition in found)
    return {partition.partition: partition.offset for partition in found if partition.offset >= 0}


def commit(client: Any, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
    """Commit and wait; any error raises."""
    wanted = [TopicPartition(topic, n, offset, metadata) for n, offset in offsets.items()]
    done = client.commit(offsets=wanted, asynchronous=False)
    assert all(partition.error is None for partition in done)


def test_a_consumer_without_a_group_commits_and_fetches(broker: Broker) -> None:
    topic, group = create_topic(broker.bootstrap, partitions=PARTITIONS), unique_name("simple")
    with consumer(broker.bootstrap, group) as client:
        assert committed(client, topic) == {}
        commit(client, topic, {0: 5, 2: 7}, "note")
        assert committed(client, topic) == {0: 5, 2: 7}
        commit(client, topic, {0: 3})
    with consumer(broker.bootstrap, group) as client:
        assert committed(client, topic) == {0: 3, 2: 7}
        (found,) = client.committed([TopicPartition(topic, 2)], timeout=REQUEST_TIMEOUT_S)
        assert found.metadata == "note"


def test_a_member_goes_on_where_the_last_one_stopped(broker: Broker) -> None:
    topic, group = create_topic(broker.bootstrap, partitions=PARTITIONS), unique_name("group")
    produce_all(
        producer(broker.bootstrap), topic, [Sent(b"%d" % i, partition=i % 3) for i in range(60)]
    )
    seen: list[int] = []
    for _ in range(3):
        with consumer(broker.bootstrap, group) as client:
            client.subscribe([topic])
            for message in take(client, 20):
                seen.append(int(message.value()))
                client.commit(message, asynchronous=False)
    assert sorted(seen) == list(range(60))


def test_a_tool_may_not_commit_beside_members(broker: Broker) -> None:
    topic, group = create_topic(broker.bootstrap, partitions=PARTITIONS), unique_name("group")
    produce_all(producer(broker.bootstrap), topic, [Sent(b"x")])
    admin = admin_client(broker.bootstrap)
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])]
    with consumer(broker.bootstrap, group) as client:
        client.subscribe([topic])
        take(client, 1)
        (refused,) = admin.alter_consumer_group_offsets(wanted).values()
        answer = refused.result(REQUEST_TIMEOUT_S)
        assert answer.topic_partitions[0].error.name() == "UNKNOWN_MEMBER_ID"
    (done,) = admin.alter_consumer_group_offsets(wanted).values()
    assert done.result(REQUEST_TIMEOUT_S).topic_partitions[0].error is None
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = listed.result(REQUEST_TIMEOUT_S).topic_partitions
    assert [(p.topic, p.partition, p.offset) for p in found] == [(topic, 0, 1)]


def test_kafka_python_commits_and_fetches(broker: Broker) -> None:
    topic, group = create_topic(broker.bootstrap, partitions=PARTITIONS), unique_name("python")
    produce_all(producer(broker.bootstrap), topic, [Sent(b"%d" % i) for i in range(10)])
    partition = PythonPartition(topic, 0)
    for start in (0, 4):
        client = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=4,
        )
        try:
            records = wait_until(lambda: client.poll(500).get(partition), "records")  # noqa: B023
            assert records[0].offset == start
            client.commit()
            assert client.committed(partition) == start + 4
        finally:
            client.close()


async def test_aiokafka_commits_and_fetches(broker: Broker) -> None:
    topic, group = create_topic(broker.bootstrap, partitions=PARTITIONS), unique_name("aio")
    produce_all(producer(broker.bootstrap), topic, [Sent(b"%d" % i) for i in range(10)])
    partition = AioPartition(topic, 0)
    for start in (0, 4):
        client = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await client.start()
        try:
            for offset in range(start, start + 4):
                assert (await client.getone(partition)).offset == offset
            await client.commit({partition: (start + 4, "note")})
            assert await client.committed(partition) == start + 4
        finally:
            await client.stop()


def test_many_groups_at_once(broker: Broker) -> None:
    """Every acknowledged commit is what the next fetch finds, under load."""
    topic = create_topic(broker.bootstrap, partitions=PARTITIONS)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with consumer(broker.bootstrap, unique_name(f"load-{number}")) as client:
                for offset in range(30):
                    commit(client, topic, {number % PARTITIONS: offset})
                    assert committed(client, topic) == {number % PARTITIONS: offset}
        except BaseException as failure:  # noqa: BLE001 - told to the test's own thread
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not failures


def test_offsets_survive_the_death_of_every_broker(
    start_towpath: Callable[..., TowpathProcess],
) -> None:
    cluster = start_towpath(brokers=3)
    topic, group = create_topic(cluster.bootstrap, partitions=PARTITIONS), unique_name("survivor")
    acknowledged: dict[int, int] = {}
    for round_number in range(3):
        with consumer(cluster.bootstrap, group) as client:
            assert committed(client, topic) == acknowledged
            for offset, number in itertools.product(range(10), range(PARTITIONS)):
                commit(client, topic, {number: round_number * 10 + offset})
                acknowledged[number] = round_number * 10 + offset
        cluster.kill()
        cluster.restart()
    with consumer(cluster.bootstrap, group) as client:
        assert committed(client, topic) == acknowledged


def test_commits_go_on_when_brokers_die(tmp_path_factory: Any, broker: Broker) -> None:
    """A committer whose coordinator is killed goes on elsewhere, and nothing goes back."""
    if broker.is_kafka:
        return
    cluster = SeparateBrokers(tmp_path_factory.mktemp("dying"), 3)
    try:
        cluster.start()
        topic = create_topic(cluster.bootstrap, partitions=PARTITIONS)
        group = unique_name("dying")
        with consumer(
            cluster.bootstrap, group, reconnect_backoff_max_ms=200, socket_timeout_ms=10_000
        ) as client:
            acknowledged = -1
            for offset in range(90):
                if offset in (30, 60):
                    cluster.kill(offset // 30 - 1)
                commit(client, topic, {0: offset})
                acknowledged = offset
                if offset % 10 == 9:
                    assert committed(client, topic) == {0: acknowledged}
    finally:
        print(cluster.log_tails())
        cluster.kill()
