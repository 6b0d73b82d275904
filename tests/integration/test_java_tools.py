"""Apache Kafka's own command line tools, on the Java client.

A run of a tool costs more than a second, so a test asks one broker several things in a row.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.harness.admin import create_topic, end_offset, unique_name
from tests.integration.harness.clients import COMPRESSIONS, Sent, consume, produce_all, producer
from tests.integration.harness.java_tools import ToolResult, java_tool

TOOLS = "org.apache.kafka.tools"
FIRST_MS = 1_650_000_000_000


def tool(name: str, bootstrap: str, *args: str, stdin: str = "") -> ToolResult:
    """Run one of Kafka's tools against the broker."""
    main_class = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
    return java_tool(main_class, "--bootstrap-server", bootstrap, *args, stdin=stdin)


def succeed(name: str, bootstrap: str, *args: str, stdin: str = "") -> ToolResult:
    """Run a tool that must succeed."""
    result = tool(name, bootstrap, *args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def fields_of(line: str) -> dict[str, str]:
    """The `name: value` fields of a line of `TopicCommand --describe`."""
    parts = [part.partition(":") for part in line.strip().split("\t")]
    return {name.strip(): value.strip() for name, _, value in parts}


def console_consume(bootstrap: str, topic: str, count: int, *args: str) -> list[str]:
    """Lines printed by the console consumer, by partition and without a group."""
    if "--offset" not in args:
        args = ("--offset", "earliest", *args)
    return succeed(
        "consumer.ConsoleConsumer",
        bootstrap,
        *("--topic", topic, "--partition", "0", "--max-messages", str(count)),
        *("--timeout-ms", "20000"),
        *args,
    ).lines()


def offsets(bootstrap: str, topic: str, *args: str) -> list[str]:
    """What GetOffsetShell prints, without the topic's name."""
    lines = succeed("GetOffsetShell", bootstrap, "--topic", topic, *args).lines()
    return [line.removeprefix(topic + ":") for line in lines]


def test_topics_from_creation_to_deletion(bootstrap: str) -> None:
    topic = unique_name("java")
    named = ("--topic", topic)
    made = succeed(
        "TopicCommand", bootstrap, "--create", *named, "--partitions", "2",
        "--config", "retention.ms=12345", "--config", "max.message.bytes=70000",
    )  # fmt: skip
    assert f"Created topic {topic}." in made.stdout
    described = succeed("TopicCommand", bootstrap, "--describe", *named).lines()
    head = fields_of(described[0])
    assert (head["Topic"], head["PartitionCount"], head["ReplicationFactor"]) == (topic, "2", "1")
    assert len(head["TopicId"]) == 22
    assert {"retention.ms=12345", "max.message.bytes=70000"} <= set(head["Configs"].split(","))
    partitions = [fields_of(line) for line in described[1:]]
    assert [fields["Partition"] for fields in partitions] == ["0", "1"]
    assert all(f["Leader"] == f["Replicas"] == f["Isr"] for f in partitions)
    succeed("TopicCommand", bootstrap, "--alter", *named, "--partitions", "3")
    head = fields_of(succeed("TopicCommand", bootstrap, "--describe", *named).lines()[0])
    assert head["PartitionCount"] == "3"
    assert topic in succeed("TopicCommand", bootstrap, "--list").lines()
    succeed("TopicCommand", bootstrap, "--delete", *named)
    gone = tool("TopicCommand", bootstrap, "--describe", *named)
    assert gone.exit_code == 1
    assert f"Topic '{topic}' does not exist as expected" in gone.output


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--create", "--topic", "{existing}"], "TopicExistsException"),
        (["--create", "--topic", "a b"], "InvalidTopicException"),
        (["--alter", "--topic", "{existing}", "--partitions", "1"], "InvalidPartitionsException"),
    ],
    ids=["exists", "bad name", "fewer partitions"],
)
def test_refusals_have_kafkas_names(bootstrap: str, args: list[str], error: str) -> None:
    existing = create_topic(bootstrap, partitions=2)
    result = tool("TopicCommand", bootstrap, *[a.format(existing=existing) for a in args])
    assert result.exit_code == 1
    assert error in result.output


def test_configs(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"retention.ms": "5000"})
    entity = ("--entity-type", "topics", "--entity-name", topic)
    command = "kafka.admin.ConfigCommand"
    changes = "max.message.bytes=2000000,cleanup.policy=[compact,delete]"
    succeed(
        command, bootstrap, *entity, "--alter",
        "--add-config", changes, "--delete-config", "retention.ms",
    )  # fmt: skip
    lines = succeed(command, bootstrap, *entity, "--describe").lines()
    assert lines[0] == f"Dynamic configs for topic {topic} are:"
    overrides = {line.strip().split(" ")[0] for line in lines[1:]}
    assert overrides == {"max.message.bytes=2000000", "cleanup.policy=compact,delete"}
    everything = succeed(command, bootstrap, *entity, "--describe", "--all").lines()
    values = dict(line.strip().split(" ")[0].split("=", 1) for line in everything[1:])
    assert values["retention.ms"] == "604800000"
    assert values["message.timestamp.type"] == "CreateTime"
    (limit,) = [line for line in everything if "max.message.bytes=" in line]
    assert "DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000" in limit
    assert "DEFAULT_CONFIG:message.max.bytes=1048588" in limit
    bad = tool(command, bootstrap, *entity, "--alter", "--add-config", "no.such=1")
    assert bad.exit_code == 1
    assert "InvalidConfigurationException" in bad.output


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_producer_performance_is_idempotent_by_default(bootstrap: str, compression: str) -> None:
    topic = create_topic(bootstrap)
    result = java_tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "300"),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}"),
        f"compression.type={compression}",
    )
    assert result.exit_code == 0, result.output
    assert "2000 records sent" in result.stdout
    got = consume(bootstrap, topic, 2000)
    assert [message.offset() for message in got] == list(range(2000))
    assert {len(message.value()) for message in got} == {300}


def test_verifiable_producer(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    result = succeed("VerifiableProducer", bootstrap, "--topic", topic, "--max-messages", "50")
    events: list[dict[str, Any]] = [json.loads(line) for line in result.lines()]
    sent = [event for event in events if event["name"] == "producer_send_success"]
    assert [(e["offset"], e["value"]) for e in sorted(sent, key=lambda e: int(e["offset"]))] == [
        (i, str(i)) for i in range(50)
    ]
    assert events[-1]["acked"] == events[-1]["sent"] == 50
    assert console_consume(bootstrap, topic, 50) == [str(i) for i in range(50)]


def test_console_producer_and_consumer(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    properties = {"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"}
    flags = [f for item in properties.items() for f in ("--property", "=".join(item))]
    succeed(
        "ConsoleProducer", bootstrap, "--topic", topic, *flags,
        stdin="a:1,b:2,a:3\tk1\tv1\nh:x\tk2\tNULL\n",
    )  # fmt: skip
    shown = [
        f for name in ("key", "headers", "offset") for f in ("--property", f"print.{name}=true")
    ]
    lines = console_consume(bootstrap, topic, 2, *shown)
    assert lines == ["Offset:0\ta:1,b:2,a:3\tk1\tv1", "Offset:1\th:x\tk2\tnull"]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_console_consumer_from_the_middle_of_a_batch(bootstrap: str, isolation: str) -> None:
    topic = create_topic(bootstrap)
    client = producer(bootstrap, linger_ms=300, compression_type="lz4")
    produce_all(client, topic, [Sent(b"%d" % i) for i in range(20)])
    lines = console_consume(
        bootstrap, topic, 13, "--offset", "7", "--isolation-level", isolation
    )  # fmt: skip
    assert lines == [str(i) for i in range(7, 20)]


def test_get_offset_shell(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=2)
    records = [Sent(b"v", timestamp_ms=FIRST_MS + ms) for ms in (0, 10, 90, 20)]
    produce_all(producer(bootstrap), topic, records)
    assert offsets(bootstrap, topic) == ["0:4", "1:0"]
    assert offsets(bootstrap, topic, "--time", "-2") == ["0:0", "1:0"]
    # A partition for which there is no such offset is left out.
    assert offsets(bootstrap, topic, "--time", "max-timestamp") == ["0:2"]
    assert offsets(bootstrap, topic, "--time", "-3") == ["0:2"]
    assert offsets(bootstrap, topic, "--time", str(FIRST_MS + 15)) == ["0:2"]
    assert offsets(bootstrap, topic, "--time", "earliest-local") == ["0:0", "1:0"]
    assert offsets(bootstrap, topic, "--time", "latest-tiered") == []


def test_delete_records(bootstrap: str, tmp_path: Path) -> None:
    topic = create_topic(bootstrap)
    produce_all(producer(bootstrap), topic, [Sent(b"%d" % i) for i in range(10)])

    def delete(offset: int) -> str:
        file = tmp_path / "offsets.json"
        wanted = {"topic": topic, "partition": 0, "offset": offset}
        file.write_text(json.dumps({"partitions": [wanted], "version": 1}))
        return succeed(
            "DeleteRecordsCommand", bootstrap, "--offset-json-file", str(file)
        ).output  # fmt: skip

    assert f"partition: {topic}-0\tlow_watermark: 6" in delete(6)
    assert offsets(bootstrap, topic, "--time", "-2") == ["0:6"]
    assert console_consume(bootstrap, topic, 4) == ["6", "7", "8", "9"]
    assert "OffsetOutOfRangeException" in delete(11)
    assert end_offset(bootstrap, topic) == 10


def test_log_dirs(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=2)
    produce_all(producer(bootstrap), topic, [Sent(b"x" * 1000)] * 10)
    result = succeed("LogDirsCommand", bootstrap, "--describe", "--topic-list", topic)
    (report,) = [json.loads(line) for line in result.lines() if line.startswith("{")]
    (broker,) = report["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert sizes[f"{topic}-1"] == 0
    assert sizes[f"{topic}-0"] >= 10_000
