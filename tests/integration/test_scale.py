"""Many partitions, many connections, many topics coming and going: with ordinary clients."""

from __future__ import annotations

import functools
import socket
import struct
import threading
from contextlib import ExitStack

import pytest
from confluent_kafka import TopicCollection
from tests.integration.conftest import Broker
from tests.integration.harness.admin import (
    REQUEST_TIMEOUT_S,
    admin_client,
    create_topic,
    partition_count,
    unique_name,
)
from tests.integration.harness.clients import (
    Sent,
    assigned_consumer,
    consume,
    produce_all,
    producer,
    take,
)
from tests.integration.harness.confluent_admin import NewTopic
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import API_VERSIONS, Connection

PARTITIONS = 2000
IDLE_CONNECTIONS = 1000
CHURNED_TOPICS = 100


@pytest.mark.timeout(180)
def test_two_thousand_partitions(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topic = create_topic(bootstrap, partitions=PARTITIONS)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(REQUEST_TIMEOUT_S)
    assert [partition.id for partition in described.partitions] == list(range(PARTITIONS))
    records = [Sent(b"%d" % p, partition=p) for p in range(PARTITIONS)] * 2
    offsets = produce_all(producer(bootstrap), topic, records)
    assert offsets == [0] * PARTITIONS + [1] * PARTITIONS
    positions = {(topic, p): 0 for p in range(PARTITIONS)}
    with assigned_consumer(bootstrap, positions) as consumer:
        got = {(m.partition(), m.offset()): m.value() for m in take(consumer, 2 * PARTITIONS, 60)}
    assert got == {(p, o): b"%d" % p for p in range(PARTITIONS) for o in (0, 1)}
    admin.delete_topics([topic])[topic].result(REQUEST_TIMEOUT_S)
    wait_until(lambda: partition_count(admin, topic) == 0, f"{topic} gone")


def test_a_thousand_idle_connections(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap)
    with ExitStack() as stack:
        idle = [
            stack.enter_context(Connection("127.0.0.1", broker.kafka_port))
            for _ in range(IDLE_CONNECTIONS)
        ]
        # Every tenth one has sent half a request and is silent since.
        for connection in idle[::10]:
            connection.send_bytes(struct.pack(">ihh", 30, API_VERSIONS, 0))
        records = [Sent(b"%d" % i) for i in range(2000)]
        assert produce_all(producer(broker.bootstrap), topic, records) == list(range(2000))
        assert len(consume(broker.bootstrap, topic, 2000)) == 2000
        # The others are still served.
        for connection in idle[1::100]:
            assert connection.api_versions()


def test_a_closed_connection_in_mid_request_harms_nobody(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap)
    for cut in (1, 4, 6, 20):
        with socket.create_connection(("127.0.0.1", broker.kafka_port)) as client:
            client.sendall((struct.pack(">ihh", 1000, 0, 7) + b"x" * 20)[:cut])
    assert produce_all(producer(broker.bootstrap), topic, [Sent(b"v")]) == [0]


@pytest.mark.timeout(180)
def test_topics_come_and_go_while_others_are_used(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    steady = create_topic(bootstrap, partitions=2)
    stop = threading.Event()
    acknowledged: list[int] = []
    failures: list[BaseException] = []

    def work() -> None:
        client = producer(bootstrap)
        try:
            while not stop.is_set():
                acknowledged.extend(produce_all(client, steady, [Sent(b"s")] * 10))
        except BaseException as failure:  # noqa: BLE001 - told to the test's own thread
            failures.append(failure)

    def has_three(name: str) -> bool:
        return partition_count(admin, name) == 3

    worker = threading.Thread(target=work)
    worker.start()
    try:
        names = [unique_name("churn") for _ in range(CHURNED_TOPICS)]
        for first in range(0, CHURNED_TOPICS, 10):
            part = names[first : first + 10]
            for future in admin.create_topics([NewTopic(n, 3) for n in part]).values():
                future.result(REQUEST_TIMEOUT_S)
            for name in part:
                wait_until(functools.partial(has_three, name), f"{name} made")
            produce_all(producer(bootstrap), part[0], [Sent(b"v", partition=2)])
            for future in admin.delete_topics(part).values():
                future.result(REQUEST_TIMEOUT_S)
    finally:
        stop.set()
        worker.join(60)
    assert not failures
    wait_until(
        lambda: not set(names) & set(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics),
        "the deleted topics are gone",
    )
    assert acknowledged == list(range(len(acknowledged)))
    assert len(acknowledged) > 0
