"""Six brokers in three zones: what clients are shown (I9), and what dies with a broker."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.conftest import PEER
from tests.integration.harness.admin import REQUEST_TIMEOUT_S, create_topic, unique_name
from tests.integration.harness.clients import (
    Sent,
    assigned_consumer,
    produce_all,
    producer,
    take,
)
from tests.integration.harness.confluent_admin import AdminClient
from tests.integration.harness.java_tools import java_tool
from tests.integration.harness.kafka_python import KafkaConsumer
from tests.integration.harness.kafka_python import TopicPartition as KafkaPartition
from tests.integration.harness.kcat import kcat
from tests.integration.harness.separate_brokers import SeparateBrokers
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

BROKERS = 6
ZONES = {"a": {1, 4}, "b": {2, 5}, "c": {3, 6}}
EVERYONE = set(range(1, BROKERS + 1))
PARTITIONS = 24
SESSION_TIMEOUT_S = 9.0
"""The default of `session_timeout_ms`; a killed process is noticed sooner."""

Leaders = dict[int, int]


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeparateBrokers]:
    """Brokers 1 to 6 in zones a, b, c, a, b, c. Tests that kill some start them again."""
    if PEER == "kafka":
        pytest.skip("a test of Towpath alone")
    cluster = SeparateBrokers(tmp_path_factory.mktemp("six"), BROKERS, {"zone": "a,b,c"})
    try:
        cluster.start()
        yield cluster
    finally:
        print(cluster.log_tails())
        cluster.kill()


@pytest.fixture(scope="module")
def topic(six: SeparateBrokers) -> str:
    return create_topic(six.bootstrap, partitions=PARTITIONS)


def shown(bootstrap: str, topic: str, client_id: str) -> tuple[set[int], Leaders]:
    """The brokers and leaders that a confluent client is shown."""
    client = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0})
    found = client.list_topics(topic, timeout=REQUEST_TIMEOUT_S)
    assert found.controller_id in found.brokers
    partitions = found.topics[topic].partitions
    return set(found.brokers), {number: p.leader for number, p in partitions.items()}


@pytest.mark.parametrize("zone", ZONES)
def test_every_broker_shows_a_zone_its_own_brokers(
    six: SeparateBrokers, topic: str, zone: str
) -> None:
    seen = [shown(address, topic, f"zone_id={zone},app=test") for address in six.bootstraps]
    assert all(brokers == ZONES[zone] for brokers, _ in seen)
    assert all(leaders == seen[0][1] for _, leaders in seen)
    assert set(seen[0][1].values()) == ZONES[zone]


@pytest.mark.parametrize("client_id", ["rdkafka", "zone_id=nowhere", "zone_id=,a=b"])
def test_all_brokers_are_shown_to_clients_of_no_known_zone(
    six: SeparateBrokers, topic: str, client_id: str
) -> None:
    brokers, leaders = shown(six.bootstraps[3], topic, client_id)
    assert brokers == EVERYONE
    assert set(leaders.values()) == EVERYONE


def test_confluent_kafka_stays_in_its_zone(six: SeparateBrokers, topic: str) -> None:
    stats: list[dict[str, Any]] = []
    client = Producer(
        {
            "bootstrap.servers": six.bootstraps[0],
            "client.id": "zone_id=b",
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: stats.append(json.loads(text)),
        }
    )
    produce_all(client, topic, [Sent(b"x", partition=p) for p in range(PARTITIONS)])
    wait_until(lambda: client.poll(0.1) >= 0 and stats, "statistics")
    known = [broker for broker in stats[-1]["brokers"].values() if broker["nodeid"] >= 0]
    assert {broker["nodeid"] for broker in known if broker["tx"]} == ZONES["b"]
    settings = {"bootstrap.servers": six.bootstraps[0], "client.id": "zone_id=b", "log_level": 0}
    admin = AdminClient(settings)
    cluster = admin.describe_cluster().result(REQUEST_TIMEOUT_S)
    assert {node.id for node in cluster.nodes} == ZONES["b"]
    assert cluster.controller.id in ZONES["b"]
    assert {node.rack for node in cluster.nodes} == {"b"}


def test_kafka_python_stays_in_its_zone(six: SeparateBrokers, topic: str) -> None:
    client = KafkaConsumer(bootstrap_servers=six.bootstraps[0], client_id="zone_id=c,x=y")
    try:
        assert client.partitions_for_topic(topic) == set(range(PARTITIONS))
        metadata = client._client.cluster
        assert {broker.node_id for broker in metadata.brokers()} == ZONES["c"]
        leaders = {metadata.leader_for_partition(KafkaPartition(topic, p)) for p in range(24)}
        assert leaders == ZONES["c"]
    finally:
        client.close()


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_lists_its_zone(six: SeparateBrokers, topic: str) -> None:
    text = kcat(six.bootstraps[1], "-L", "-J", "-t", topic, "-X", "client.id=zone_id=a,tool=kcat")
    found = json.loads(text)
    assert {broker["id"] for broker in found["brokers"]} == ZONES["a"]
    (mine,) = found["topics"]
    assert {partition["leader"] for partition in mine["partitions"]} == ZONES["a"]


def test_the_java_client_sees_its_zone(six: SeparateBrokers, topic: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=zone_id=b,tool=java\n")
    described = java_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", six.bootstraps[0], "--command-config", str(config)),
        *("--describe", "--topic", topic),
    )
    assert described.exit_code == 0, described.output
    lines = [line for line in described.lines() if "Leader:" in line]
    leaders = {int(line.split("Leader:")[1].split()[0]) for line in lines}
    assert len(lines) == PARTITIONS
    assert leaders == ZONES["b"]


# Racks: consumers that name one read there


def fetched_bytes(six: SeparateBrokers) -> dict[int, float]:
    """What each broker has sent to consumers so far."""
    found = {}
    for index in range(BROKERS):
        url = f"http://127.0.0.1:{six.http_port + index}/metrics?local=1"
        lines = urllib.request.urlopen(url, timeout=10).read().decode().splitlines()
        (line,) = [line for line in lines if line.startswith("towpath_fetched_bytes_total ")]
        found[index + 1] = float(line.split()[1])
    return found


def served_by(six: SeparateBrokers, read: Callable[[], object]) -> set[int]:
    """The brokers that sent records while something was read."""
    before = fetched_bytes(six)
    read()
    return {number for number, sent in fetched_bytes(six).items() if sent > before[number]}


RECORDS = 10


@pytest.fixture(scope="module")
def filled(six: SeparateBrokers) -> str:
    """A topic with records in every partition."""
    topic = create_topic(six.bootstrap, partitions=6)
    produce_all(
        producer(six.bootstrap),
        topic,
        [Sent(b"%d" % i, partition=i % 6) for i in range(6 * RECORDS)],
    )
    return topic


def test_replicas_are_shown_in_every_rack(six: SeparateBrokers, filled: str) -> None:
    client = AdminClient({"bootstrap.servers": six.bootstrap, "log_level": 0})
    found = client.list_topics(filled, timeout=REQUEST_TIMEOUT_S).topics[filled].partitions
    for partition in found.values():
        assert partition.replicas[0] == partition.leader
        assert all(len(ZONES[zone] & set(partition.replicas)) == 1 for zone in ZONES)
        assert sorted(partition.isrs) == sorted(partition.replicas)


def read_confluent(six: SeparateBrokers, topic: str, **settings: str) -> None:
    positions = {(topic, number): 0 for number in range(6)}
    with assigned_consumer(six.bootstrap, positions, **settings) as client:
        got = take(client, 6 * RECORDS)
    assert sorted(int(message.value()) for message in got) == list(range(6 * RECORDS))


def read_kafka_python(six: SeparateBrokers, topic: str, rack: str) -> None:
    client = KafkaConsumer(
        bootstrap_servers=six.bootstraps, client_rack=rack, auto_offset_reset="earliest"
    )
    try:
        client.assign([KafkaPartition(topic, number) for number in range(6)])
        client.seek_to_beginning()
        got: list[int] = []

        def poll() -> bool:
            for records in client.poll(200).values():
                got.extend(int(record.value) for record in records)
            return len(got) >= 6 * RECORDS

        wait_until(poll, "all records")
        assert sorted(got) == list(range(6 * RECORDS))
    finally:
        client.close()


def test_confluent_reads_in_its_rack(six: SeparateBrokers, filled: str) -> None:
    assert served_by(six, lambda: read_confluent(six, filled, client_rack="b")) <= ZONES["b"]
    everywhere = served_by(six, lambda: read_confluent(six, filled, client_rack="nowhere"))
    assert len(everywhere) > 1


def test_kafka_python_reads_in_its_rack(six: SeparateBrokers, filled: str) -> None:
    assert served_by(six, lambda: read_kafka_python(six, filled, "c")) <= ZONES["c"]


def test_the_java_consumer_reads_in_its_rack(six: SeparateBrokers, filled: str) -> None:
    def read() -> None:
        done = java_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", six.bootstrap, "--topic", filled, "--partition", "3"),
            *("--offset", "earliest", "--max-messages", str(RECORDS), "--timeout-ms", "20000"),
            *("--consumer-property", "client.rack=a"),
        )
        assert done.exit_code == 0, done.output
        assert sorted(map(int, done.lines())) == [6 * i + 3 for i in range(RECORDS)]

    assert served_by(six, read) <= ZONES["a"]


# Groups: each member has a coordinator in its own zone


def coordinator_port(stats: list[dict[str, Any]]) -> int | None:
    """The port of the group's coordinator as a confluent consumer knows it."""
    name = stats[-1]["brokers"].get("GroupCoordinator", {}).get("nodename", "") if stats else ""
    return int(name.rpartition(":")[2]) if name else None


def test_members_of_one_group_have_coordinators_in_their_zones(
    six: SeparateBrokers, filled: str
) -> None:
    group = unique_name("zoned")
    stats: dict[str, list[dict[str, Any]]] = {zone: [] for zone in ZONES}
    members = {
        zone: Consumer(
            {
                "bootstrap.servers": six.bootstraps[0],
                "client.id": f"zone_id={zone}",
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "statistics.interval.ms": 200,
                "stats_cb": lambda text, zone=zone: stats[zone].append(json.loads(text)),
            }
        )
        for zone in ZONES
    }
    try:
        for member in members.values():
            member.subscribe([filled])

        def all_have_two() -> bool:
            for member in members.values():
                member.poll(0.05)
            return all(len(member.assignment()) == 2 for member in members.values())

        def known_port(zone: str) -> int:
            members[zone].poll(0.1)
            return coordinator_port(stats[zone]) or 0

        wait_until(all_have_two, "every member has its share", timeout_s=60.0)
        for zone, member in members.items():
            assigned = member.assignment()
            wanted = [TopicPartition(filled, p.partition, 7) for p in assigned]
            done = member.commit(offsets=wanted, asynchronous=False)
            assert all(partition.error is None for partition in done)
            port = wait_until(partial(known_port, zone), "the coordinator is known")
            assert port - six.kafka_port + 1 in ZONES[zone]
        found = members["a"].committed(
            [TopicPartition(filled, number) for number in range(6)], timeout=REQUEST_TIMEOUT_S
        )
        assert [partition.offset for partition in found] == [7] * 6
    finally:
        for member in members.values():
            member.close()


# Brokers that die. These tests come last: they kill, and start again.


def test_only_the_partitions_of_a_dead_broker_move(six: SeparateBrokers, topic: str) -> None:
    everyone, zone = "plain", "zone_id=b"
    before = {who: shown(six.bootstraps[0], topic, who)[1] for who in (everyone, zone)}
    six.kill(4)  # Broker 5, of zone b.
    try:
        wait_until(
            lambda: 5 not in shown(six.bootstraps[0], topic, everyone)[0],
            "the dead broker has left",
            timeout_s=SESSION_TIMEOUT_S,
        )
        for who, expected in ((everyone, EVERYONE - {5}), (zone, {2})):
            brokers, leaders = shown(six.bootstraps[0], topic, who)
            assert brokers == expected
            for number, leader in leaders.items():
                assert leader == before[who][number] or before[who][number] == 5
        produce_all(
            producer(six.bootstraps[1], client_id=zone),
            topic,
            [Sent(b"x", partition=p) for p in range(6)],
        )
    finally:
        six.start(4)
    wait_until(
        lambda: shown(six.bootstraps[0], topic, zone) == ({2, 5}, before[zone]), "all as before"
    )


def test_a_dead_zone_falls_back_to_all_brokers(six: SeparateBrokers, topic: str) -> None:
    zone = "zone_id=c"
    before = shown(six.bootstraps[0], topic, zone)
    six.kill(2, 5)  # Brokers 3 and 6: the whole of zone c.
    try:
        rest = EVERYONE - ZONES["c"]
        wait_until(
            lambda: shown(six.bootstraps[0], topic, zone)[0] == rest,
            "the dead zone has left",
            timeout_s=SESSION_TIMEOUT_S,
        )
        leaders = shown(six.bootstraps[1], topic, zone)[1]
        assert set(leaders.values()) <= rest
        produce_all(
            producer(six.bootstraps[0], client_id=zone),
            topic,
            [Sent(b"x", partition=p) for p in range(6)],
        )
        read = shown(six.bootstraps[0], topic, "zone_id=a")
        assert read[0] == ZONES["a"]
    finally:
        six.start(2, 5)
    wait_until(lambda: shown(six.bootstraps[0], topic, zone) == before, "the zone is back")


def test_up_deals_out_zones(start_towpath: Callable[..., TowpathProcess]) -> None:
    cluster = start_towpath(brokers=2, settings={"zones": "x,y"})
    topic = create_topic(cluster.bootstrap, partitions=4)
    assert shown(cluster.bootstraps[0], topic, "zone_id=y")[0] == {2}
    assert shown(cluster.bootstraps[1], topic, "zone_id=x")[0] == {1}
    assert shown(cluster.bootstraps[1], topic, "zone_id=z")[0] == {1, 2}


def test_owners_are_enforced_by_zone(start_towpath: Callable[..., TowpathProcess]) -> None:
    cluster = start_towpath(brokers=4, settings={"zones": "x,y", "routing_enforce_owner": "true"})
    topic = create_topic(cluster.bootstrap, partitions=8)
    sent = [Sent(b"%d" % i, partition=i % 8) for i in range(80)]
    for client_id in ("zone_id=x", "zone_id=y", "plain"):
        produce_all(producer(cluster.bootstraps[0], client_id=client_id), topic, sent)
        with assigned_consumer(
            cluster.bootstraps[3], {(topic, p): 0 for p in range(8)}, client_id=client_id
        ) as client:
            take(client, 80)
