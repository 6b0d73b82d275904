"""Off-the-shelf tools see a normal Kafka cluster: nothing in what they print looks odd."""

from __future__ import annotations

import re
import shutil

import pytest
from tests.integration.conftest import Broker
from tests.integration.harness.admin import admin_client, create_topic
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.java_tools import java_tool
from tests.integration.harness.kcat import kcat

# What every client of today may rely on, by API key.
CORE_APIS = {
    "Produce(0)",
    "Fetch(1)",
    "ListOffsets(2)",
    "Metadata(3)",
    "ApiVersions(18)",
    "CreateTopics(19)",
    "DeleteTopics(20)",
    "DeleteRecords(21)",
    "InitProducerId(22)",
    "OffsetForLeaderEpoch(23)",
    "DescribeConfigs(32)",
    "AlterConfigs(33)",
    "DescribeLogDirs(35)",
    "CreatePartitions(37)",
    "IncrementalAlterConfigs(44)",
    "DescribeCluster(60)",
    "DescribeTopicPartitions(75)",
}
# Transactions, share groups and what brokers say to each other.
NEVER_OFFERED_BY_TOWPATH = {
    "AddPartitionsToTxn(24)",
    "AddOffsetsToTxn(25)",
    "EndTxn(26)",
    "WriteTxnMarkers(27)",
    "TxnOffsetCommit(28)",
    "DescribeTransactions(65)",
    "ListTransactions(66)",
    "ShareGroupHeartbeat(76)",
    "ShareFetch(78)",
}


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_lists_a_cluster(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, partitions=2)
    text = kcat(broker.bootstrap, "-L").decode()
    assert re.search(r"Metadata for all topics \(from broker -?\d+: ", text)
    (node,) = re.findall(rf"broker (\d+) at 127\.0\.0\.1:{broker.kafka_port} \(controller\)", text)
    block = text.partition(f'topic "{topic}" with 2 partitions:\n')[2]
    expected = [
        f"    partition {p}, leader {node}, replicas: {node}, isrs: {node}" for p in range(2)
    ]
    assert block.splitlines()[:2] == expected


def test_api_versions_as_java_sees_them(broker: Broker) -> None:
    result = java_tool(
        "org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", broker.bootstrap
    )
    assert result.exit_code == 0, result.output
    assert f"127.0.0.1:{broker.kafka_port} (id: " in result.stdout
    offered = {
        match[1]: match[2]
        for match in re.finditer(r"^\t(\w+\(\d+\)): (.*?),?$", result.stdout, re.MULTILINE)
    }
    usable = {name for name, versions in offered.items() if "usable:" in versions}
    assert usable >= CORE_APIS
    # Older librdkafka sends nothing compressed unless Produce starts at 0.
    assert offered["Produce(0)"].startswith("0 to ")
    if not broker.is_kafka:
        assert not usable & NEVER_OFFERED_BY_TOWPATH


def test_every_topic_is_healthy_in_topic_command(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=2)
    for trouble in ("--under-replicated-partitions", "--unavailable-partitions"):
        result = java_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", bootstrap, "--describe", "--topic", topic, trouble),
        )
        assert (result.exit_code, result.stdout.strip()) == (0, ""), result.output


def test_broker_configs_in_config_command(broker: Broker) -> None:
    cluster = admin_client(broker.bootstrap).describe_cluster().result(30)
    node = str(cluster.nodes[0].id)
    result = java_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", broker.bootstrap, "--entity-type", "brokers"),
        *("--entity-name", node, "--describe", "--all"),
    )
    assert result.exit_code == 0, result.output
    assert result.lines()[0] == f"All configs for broker {node} are:"
    values = dict(line.strip().split(" ")[0].split("=", 1) for line in result.lines()[1:])
    assert values["auto.create.topics.enable"] == "true"
    assert values["num.partitions"] == "1"


def test_log_dirs_of_the_whole_cluster(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    produce_all(producer(bootstrap), topic, [Sent(b"v")])
    result = java_tool(
        "org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", bootstrap, "--describe"
    )
    assert result.exit_code == 0, result.output
    assert f'"{topic}-0"' in result.stdout
    assert '"error":null' in result.stdout
