"""Real consumers in groups of the consumer protocol (KIP-848): they come, go and crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
)
from tests.integration.conftest import PEER
from tests.integration.harness.admin import admin_client, create_topic, unique_name
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.group_members import GroupUnderTest, group_under_test
from tests.integration.harness.java_tools import ToolResult, java_tool
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

PARTITIONS = 6
RECORDS = 600
ADMIN_TIMEOUT_S = 30.0
SESSION_MS = 4_000
QUICK = {
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": str(SESSION_MS),
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "300",
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    """Three brokers at which members may be silent for a short time only."""
    if PEER == "kafka":
        pytest.skip("Kafka's defaults take too long for these tests")
    server = TowpathProcess(tmp_path_factory.mktemp("quick"), brokers=3, settings=QUICK)
    try:
        server.start()
        yield server
    finally:
        print(server.process.log_tail())
        server.stop()


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
    asked = [ConsumerGroupTopicPartitions(group)]
    client = admin_client(bootstrap)
    found = client.list_consumer_group_offsets(asked)[group].result(ADMIN_TIMEOUT_S)
    return {p.partition: p.offset for p in found.topic_partitions}


def group_of(bootstrap: str, name: str, topic: str, **settings: Any) -> Any:
    """Members of confluent-kafka with the consumer protocol."""
    settings = {"protocol": "consumer", **settings}
    return group_under_test("confluent", bootstrap, name, topic, PARTITIONS, **settings)


def test_one_member_consumes_everything_and_commits(bootstrap: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("one")
    sent = send(bootstrap, topic)
    with group_of(bootstrap, name, topic) as group:
        [member] = group.start()
        group.wait_balanced()
        group.wait_consumed(sent)
        found = described(bootstrap, name)
        assert (found.state, found.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
        assert found.partition_assignor == "uniform"
        group.close(member)
        wait_state(bootstrap, name, ConsumerGroupState.EMPTY)
        assert committed(bootstrap, name) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        # A second life goes on where the first has ended.
        later = send(bootstrap, topic, PARTITIONS)
        [again] = group.start()
        group.wait_consumed(later)
        assert set(again.consumed) == later


def test_three_members_come_go_and_crash(quick: TowpathProcess) -> None:
    bootstrap = quick.bootstrap
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("three")
    sent = send(bootstrap, topic)
    with group_of(bootstrap, name, topic) as group:
        group.start(2)
        group.wait_balanced()
        group.wait_consumed(sent)
        group.start()
        group.wait_balanced()
        _check_description(bootstrap, name, group)
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
    assert committed(bootstrap, name) == {}


def _check_description(bootstrap: str, name: str, group: GroupUnderTest) -> None:
    wait_state(bootstrap, name, ConsumerGroupState.STABLE)
    shown = [
        sorted(p.partition for p in member.assignment.topic_partitions)
        for member in described(bootstrap, name).members
    ]
    assert sorted(shown) == sorted(sorted(member.assigned) for member in group.members)
    client = admin_client(bootstrap)
    listed = client.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(ADMIN_TIMEOUT_S)
    assert name in [found.group_id for found in listed.valid]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        client.delete_consumer_groups([name])[name].result(ADMIN_TIMEOUT_S)


def test_a_broker_is_killed_under_a_group(
    start_towpath: Callable[..., TowpathProcess],
) -> None:
    server = start_towpath(brokers=3, settings=QUICK)
    topic, name = create_topic(server.bootstrap, partitions=PARTITIONS), unique_name("killed")
    sent = send(server.bootstrap, topic)
    with group_of(server.bootstrap, name, topic) as group:
        group.start(3)
        group.wait_balanced()
        group.wait_consumed(sent)
        server.kill_broker(0)
        group.wait_consumed(send(",".join(server.bootstraps[1:]), topic))
        group.wait_balanced()


def test_a_static_member_that_restarts_disturbs_nobody(bootstrap: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("static")
    sent = send(bootstrap, topic)
    with group_of(bootstrap, name, topic) as group:
        [staying] = group.start(instance_id="a")
        [moving] = group.start(instance_id="b")
        group.wait_balanced()
        group.wait_consumed(sent)
        before, events = (staying.assigned, moving.assigned), len(staying.moves)
        group.close(moving)
        [back] = group.start(instance_id="b")
        wait_until(lambda: back.has_been_assigned, "the member is back")
        assert (staying.assigned, back.assigned) == before
        group.wait_consumed(send(bootstrap, topic))
        assert len(staying.moves) == events


def test_a_regular_expression_finds_topics_that_come(quick: TowpathProcess) -> None:
    prefix = unique_name("logs")
    create_topic(quick.bootstrap, f"{prefix}-a", partitions=2)
    create_topic(quick.bootstrap, f"x{prefix}-a", partitions=1)
    client = _consumer(quick.bootstrap, unique_name("regex"))
    try:
        client.subscribe([f"^{prefix}-.*"])
        wait_until(lambda: _owned(client) == {(f"{prefix}-a", 0), (f"{prefix}-a", 1)}, "matched")
        create_topic(quick.bootstrap, f"{prefix}-b", partitions=1)
        wait_until(lambda: (f"{prefix}-b", 0) in _owned(client), "matched later")
        assert len(_owned(client)) == 3
    finally:
        client.close()


def _consumer(bootstrap: str, group: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )


def _owned(client: Any) -> set[tuple[str, int]]:
    client.poll(0.1)
    return {(found.topic, found.partition) for found in client.assignment()}


# Kafka's own tools


def tool(name: str, bootstrap: str, *args: str) -> ToolResult:
    """Run one of Kafka's tools, which must succeed."""
    main_class = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
    result = java_tool(main_class, "--bootstrap-server", bootstrap, *args)
    assert result.exit_code == 0, result.output
    return result


def java_consume(bootstrap: str, count: int, *args: str) -> list[str]:
    """Lines of the console consumer with the consumer protocol."""
    limits = ("--max-messages", str(count), "--timeout-ms", "60000")
    protocol = ("--consumer-property", "group.protocol=consumer")
    return tool("consumer.ConsoleConsumer", bootstrap, *limits, *protocol, *args).lines()


def test_the_java_consumer(bootstrap: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("java")
    send(bootstrap, topic)
    group = ("--group", name, "--from-beginning")
    assert len(java_consume(bootstrap, RECORDS, "--topic", topic, *group)) == RECORDS
    wait_state(bootstrap, name, ConsumerGroupState.EMPTY)
    assert committed(bootstrap, name) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    produce_all(producer(bootstrap), topic, [Sent(value=b"later")])
    assert java_consume(bootstrap, 1, "--include", f"{topic}.*", *group) == ["later"]


def test_tools_describe_and_configure_groups(bootstrap: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("tools")
    send(bootstrap, topic)
    entity = ("--entity-type", "groups", "--entity-name", name)
    command, setting = "kafka.admin.ConfigCommand", "consumer.session.timeout.ms"
    tool(command, bootstrap, "--alter", *entity, "--add-config", f"{setting}=50000")
    assert f"{setting}=50000" in tool(command, bootstrap, "--describe", *entity).stdout
    tool(command, bootstrap, "--alter", *entity, "--delete-config", setting)
    with group_of(bootstrap, name, topic) as group:
        group.start(2)
        group.wait_balanced()
        groups = "consumer.group.ConsumerGroupCommand"
        state = tool(groups, bootstrap, "--describe", "--group", name, "--state").lines()
        assert {"uniform", "Stable", "2"} <= set(state[-1].split())
        members = tool(groups, bootstrap, "--describe", "--group", name, "--members", "--verbose")
        assert members.stdout.count(topic) == 2 * 2  # What it has and what it shall have.
        listed = tool(groups, bootstrap, "--list", "--type", "consumer").lines()
        assert name in [line.split()[0] for line in listed]


def test_protocols_do_not_mix(bootstrap: str) -> None:
    topic, name = create_topic(bootstrap, partitions=PARTITIONS), unique_name("mixed")
    sent = send(bootstrap, topic)
    with group_of(bootstrap, name, topic) as group:
        [member] = group.start()
        group.wait_balanced()
        group.wait_consumed(sent)
        classic = java_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", name),
            *("--timeout-ms", "10000"),
        )
        assert "InconsistentGroupProtocolException" in classic.output
        wait_until(
            lambda: sum(committed(bootstrap, name).values()) == len(sent), "everything committed"
        )
        group.close(member)
    wait_state(bootstrap, name, ConsumerGroupState.EMPTY)
    # Without members, the group goes over to the other protocol with its offsets.
    produce_all(producer(bootstrap), topic, [Sent(value=b"later")])
    lines = tool(
        "consumer.ConsoleConsumer", bootstrap,
        *("--topic", topic, "--group", name, "--max-messages", "1", "--timeout-ms", "60000"),
    ).lines()  # fmt: skip
    assert lines == ["later"]
    assert set(committed(bootstrap, name)) == set(range(PARTITIONS))
