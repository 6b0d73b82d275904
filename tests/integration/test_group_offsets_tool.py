"""Apache Kafka's `kafka-consumer-groups`, on the Java admin client: offsets of groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.clients import Sent, produce_all, producer, take
from tests.integration.harness.java_tools import ToolResult, java_tool
from tests.integration.test_group_offsets import commit, committed, consumer

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RECORDS = 10


def groups_tool(bootstrap: str, *args: str) -> ToolResult:
    """Run the tool, which must succeed."""
    result = java_tool(TOOL, "--bootstrap-server", bootstrap, *args)
    assert result.exit_code == 0, result.output
    return result


def described(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Committed offset, log end and lag by topic and partition, as the tool shows them."""
    lines = groups_tool(bootstrap, "--describe", "--group", group).lines()
    rows = [line.split() for line in lines if line.startswith(group)]
    return {(row[1], int(row[2])): (row[3], row[4], row[5]) for row in rows}


def filled_topic(bootstrap: str, partitions: int = 3) -> str:
    """A topic with records in every partition."""
    topic = create_topic(bootstrap, partitions=partitions)
    sent = [Sent(b"%d" % i, partition=i % partitions) for i in range(RECORDS * partitions)]
    produce_all(producer(bootstrap), topic, sent)
    return topic


def test_describe_shows_offsets_and_lag(broker: Broker) -> None:
    topic, group = filled_topic(broker.bootstrap), unique_name("described")
    with consumer(broker.bootstrap, group) as client:
        commit(client, topic, {0: 4, 2: 10})
    assert described(broker.bootstrap, group) == {
        (topic, 0): ("4", "10", "6"),
        (topic, 2): ("10", "10", "0"),
    }
    assert group in groups_tool(broker.bootstrap, "--list").lines()


def test_reset_offsets(broker: Broker, tmp_path: Path) -> None:
    topic, group = filled_topic(broker.bootstrap), unique_name("reset")
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    groups_tool(broker.bootstrap, *reset, "--to-earliest", "--dry-run")
    with consumer(broker.bootstrap, group) as client:
        assert committed(client, topic) == {}
        groups_tool(broker.bootstrap, *reset, "--to-latest", "--execute")
        assert committed(client, topic) == {0: 10, 1: 10, 2: 10}
        groups_tool(broker.bootstrap, *reset, "--shift-by", "-3", "--execute")
        assert committed(client, topic) == {0: 7, 1: 7, 2: 7}
        exported = groups_tool(
            broker.bootstrap, *reset, "--to-offset", "2", "--export", "--dry-run"
        )
        offsets = tmp_path / "offsets.csv"
        offsets.write_text("\n".join(exported.lines()) + "\n")
        groups_tool(
            broker.bootstrap,
            *("--reset-offsets", "--group", group, "--from-file", str(offsets), "--execute"),
        )
        assert committed(client, topic) == {0: 2, 1: 2, 2: 2}


def test_a_group_in_use_is_not_reset(broker: Broker) -> None:
    topic, group = filled_topic(broker.bootstrap), unique_name("busy")
    with consumer(broker.bootstrap, group) as client:
        client.subscribe([topic])
        take(client, RECORDS)
        client.commit(asynchronous=False)
        before = committed(client, topic)
        refused = java_tool(
            TOOL,
            *("--bootstrap-server", broker.bootstrap, "--reset-offsets", "--group", group),
            *("--topic", topic, "--to-earliest", "--execute"),
        )
        assert "inactive" in refused.output
        assert committed(client, topic) == before
        used = java_tool(
            TOOL,
            *("--bootstrap-server", broker.bootstrap, "--delete-offsets", "--group", group),
            *("--topic", topic),
        )
        assert "GroupSubscribedToTopic" in used.output or "subscribed" in used.output
        assert committed(client, topic) == before


def test_delete_offsets_and_groups(broker: Broker) -> None:
    topic, group = filled_topic(broker.bootstrap), unique_name("deleted")
    with consumer(broker.bootstrap, group) as client:
        commit(client, topic, {0: 1, 1: 2, 2: 3})
        groups_tool(broker.bootstrap, "--delete-offsets", "--group", group, "--topic", f"{topic}:1")
        assert committed(client, topic) == {0: 1, 2: 3}
        groups_tool(broker.bootstrap, "--delete", "--group", group)
        assert committed(client, topic) == {}
    assert group not in groups_tool(broker.bootstrap, "--list").lines()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_java_consumer_goes_on_where_it_stopped(broker: Broker, protocol: str) -> None:
    topic, group = filled_topic(broker.bootstrap, partitions=1), unique_name("java")
    seen: list[int] = []
    for count in (4, RECORDS - 4):
        done = java_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group),
            *("--max-messages", str(count), "--timeout-ms", "30000"),
            *("--consumer-property", f"group.protocol={protocol}"),
            *("--consumer-property", "auto.offset.reset=earliest"),
        )
        assert done.exit_code == 0, done.output
        seen += map(int, done.lines())
        with consumer(broker.bootstrap, group) as client:
            (found,) = client.committed([TopicPartition(topic, 0)], timeout=30)
            assert found.offset == len(seen)
    assert seen == list(range(RECORDS))
