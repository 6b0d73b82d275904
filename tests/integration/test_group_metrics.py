"""The lag of groups on `/metrics`, told by one of several brokers."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from tests.integration.harness.admin import admin_client, create_topic, unique_name
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

HOUR_MS = 3_600_000
RECORDS = 10
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')


def samples(server: TowpathProcess, name: str) -> list[tuple[dict[str, str], float]]:
    """The samples of a metric with their labels, of all brokers."""
    with urllib.request.urlopen(f"{server.http_url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return [
        (dict(LABEL.findall(labels)), float(value))
        for found, labels, value in SAMPLE.findall(text)
        if found == name
    ]


def of_group(server: TowpathProcess, name: str, group: str) -> dict[int, float]:
    """A metric of a group by partition; fails if several brokers tell it."""
    found = [(labels, v) for labels, v in samples(server, name) if labels["group"] == group]
    by_partition = {int(labels["partition"]): value for labels, value in found}
    assert len(found) == len(by_partition), found
    return by_partition


def total(server: TowpathProcess, name: str, **wanted: str) -> float:
    """The sum of the samples that have these labels."""
    return sum(value for labels, value in samples(server, name) if wanted.items() <= labels.items())


def test_lag_of_groups_with_and_without_members(
    start_towpath: Callable[..., TowpathProcess],
) -> None:
    server = start_towpath(brokers=3)
    topic, group = create_topic(server.bootstrap, partitions=2), unique_name("watched")
    first_ms = int(time.time() * 1000) - HOUR_MS
    records = [Sent(b"%d" % i, timestamp_ms=first_ms + 1000 * i) for i in range(RECORDS)]
    produce_all(producer(server.bootstrap), topic, records)
    client = admin_client(server.bootstrap)
    simple = ConsumerGroupTopicPartitions(
        "simple", [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 0)]
    )
    client.alter_consumer_group_offsets([simple])["simple"].result(30)

    def lag() -> dict[int, float]:
        return of_group(server, "towpath_group_lag_records", "simple")

    wait_until(lambda: lag() == {0: 6.0, 1: 0.0}, "the lag is told")
    seconds = of_group(server, "towpath_group_lag_seconds", "simple")
    assert HOUR_MS / 1000 - 10 < seconds[0] < HOUR_MS / 1000 + 600
    assert seconds[1] == 0.0
    assert total(server, "towpath_groups", type="classic", state="Empty") == 1

    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.2) is not None, "a record", timeout_s=60)
        offsets = [TopicPartition(topic, 0, RECORDS)]
        consumer.commit(offsets=offsets, asynchronous=False)

        def told() -> dict[int, float]:
            return of_group(server, "towpath_group_lag_records", group)

        wait_until(lambda: told() == {0: 0.0}, "a group with a member is told")
        assert total(server, "towpath_groups", state="Stable") == 1
        assert total(server, "towpath_group_rebalances_total", type="classic") >= 1
        assert total(server, "towpath_group_committed_offsets_total") == 3
        beats = "towpath_requests_total"
        wait_until(lambda: total(server, beats, api="Heartbeat") > 0, "heartbeats are counted")
    finally:
        consumer.close()
    client.delete_consumer_groups(["simple"])["simple"].result(30)
    wait_until(lambda: lag() == {}, "a deleted group leaves nothing")
