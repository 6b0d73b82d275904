"""`towpath groups` against a running broker, which may also be Apache Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.clients import Sent, produce_all, producer
from tests.integration.harness.java_tools import java_tool
from tests.integration.harness.towpath_process import REPOSITORY
from tests.integration.harness.waiting import wait_until

CLI_TIMEOUT_S = 60
HOUR_MS = 3_600_000
RECORDS = 10
CONSUMER_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def groups(broker: Broker, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "towpath", "groups", *args, "--bootstrap", broker.bootstrap],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=CLI_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )


def tell(broker: Broker, *args: str, stdin: str = "") -> Any:
    """What a command that must succeed prints as JSON."""
    done = groups(broker, *args, "--output", "json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def describe(broker: Broker, group: str) -> Any:
    (report,) = tell(broker, "describe", group)
    return report


def refusal(broker: Broker, *args: str) -> str:
    """The one line of a command that must fail."""
    done = groups(broker, *args)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def committed(report: Any) -> dict[tuple[str, int], int]:
    return {(p["topic"], p["partition"]): p["committed_offset"] for p in report["partitions"]}


@contextmanager
def member(broker: Broker, group: str, topic: str, count: int, **more: Any) -> Iterator[Any]:
    """A consumer that has read and committed so many records."""
    client = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )
    read = 0
    try:
        client.subscribe([topic])
        deadline = time.monotonic() + CLI_TIMEOUT_S
        while read < count:
            assert time.monotonic() < deadline, f"read {read} of {count}"
            message = client.poll(0.2)
            if message is not None and message.error() is None:
                client.store_offsets(message)
                read += 1
        client.commit(asynchronous=False)
        yield client
    finally:
        client.close()


@pytest.fixture
def topic(broker: Broker) -> str:
    """Two partitions; the records of the first are a second apart and began an hour ago."""
    name = create_topic(broker.bootstrap, partitions=2)
    first_ms = int(time.time() * 1000) - HOUR_MS
    records = [Sent(b"%d" % i, timestamp_ms=first_ms + 1000 * i) for i in range(RECORDS)]
    produce_all(producer(broker.bootstrap), name, records)
    return name


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member(broker: Broker, topic: str, protocol: str) -> None:
    group = unique_name("cli-group")
    with member(broker, group, topic, 4, group_protocol=protocol):
        wait_until(lambda: describe(broker, group)["state"] == "Stable", "the group is stable")
        report = describe(broker, group)
        assert (report["type"], report["lag"]) == (protocol, 6)
        assert report["coordinator"]["port"] == broker.kafka_port
        (only,) = report["members"]
        assert (only["client_id"], only["host"]) == ("reader", "127.0.0.1")
        assert only["assignment"] == {topic: [0, 1]}
        first, second = report["partitions"]
        assert (first["committed_offset"], first["log_end"], first["lag"]) == (4, RECORDS, 6)
        # The first unread record is the fifth, four seconds younger than the first.
        assert HOUR_MS / 1000 - 4 <= first["lag_seconds"] < HOUR_MS / 1000 + CLI_TIMEOUT_S
        assert first["member_id"] == second["member_id"] == only["member_id"]
        assert (second["committed_offset"], second["lag"]) == (None, None)
        listed = {row["group"]: row for row in tell(broker, "list")}
        row = {"group": group, "type": protocol, "state": "Stable", "members": 1, "lag": 6}
        assert listed[group] == row
        assert f"{topic}:0-1" in groups(broker, "describe", group).stdout

        assert "is Stable with 1 member" in refusal(broker, "reset", group, "--to", "earliest")
        assert "not empty" in refusal(broker, "delete", group, "--yes")
        said = refusal(broker, "delete", group, "--topic", topic, "--yes")
        assert "subscribed" in said
        assert committed(describe(broker, group))[topic, 0] == 4
    report = describe(broker, group)
    assert (report["state"], report["members"], report["lag"]) == ("Empty", [], 6)


def test_every_way_to_reset(broker: Broker, topic: str, tmp_path: Path) -> None:
    group = unique_name("cli-reset")
    with member(broker, group, topic, 5):
        pass

    def reset(*args: str, stdin: str = "") -> int:
        tell(broker, "reset", group, *args, "--execute", stdin=stdin)
        return committed(describe(broker, group))[topic, 0]

    plan = tell(broker, "reset", group, "--to", "earliest")
    assert [(move["committed_offset"], move["offset"]) for move in plan] == [(5, 0)]
    assert committed(describe(broker, group)) == {(topic, 0): 5}, "a dry run changes nothing"
    assert reset("--to", "earliest") == 0
    assert reset("--to", "latest") == RECORDS
    assert reset("--to", "7") == 7
    assert reset("--shift-by", "-3") == 4
    assert reset("--shift-by", "100") == RECORDS
    assert reset("--to", "-1") == 9
    begun_ms = int(time.time() * 1000) - HOUR_MS
    assert reset("--to", f"@{begun_ms - HOUR_MS}") == 0
    assert reset("--to", f"@{begun_ms + HOUR_MS}") == RECORDS
    assert reset("--from-file", "-", stdin=f"{topic},0,3\n") == 3
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert reset("--from-file", str(tmp_path / "plan.json")) == 0
    tell(broker, "reset", group, "--to", "latest", "--topic", f"{topic}:1", "--execute")
    assert committed(describe(broker, group)) == {(topic, 0): 0, (topic, 1): 0}
    with member(broker, group, topic, RECORDS):
        pass
    assert committed(describe(broker, group))[topic, 0] == RECORDS, "a consumer goes on from there"


def test_a_reset_makes_a_group(broker: Broker, topic: str) -> None:
    group = unique_name("cli-made")
    assert "there is no group" in refusal(broker, "describe", group)
    assert "name topics with --topic" in refusal(broker, "reset", group, "--to", "latest")
    tell(broker, "reset", group, "--to", "latest", "--topic", topic, "--execute")
    assert describe(broker, group)["lag"] == 0
    said = refusal(broker, "reset", group, "--to", "1", "--topic", f"{topic}:9")
    assert f"topic {topic} has no partition 9" in said
    assert "Unknown topic" in refusal(broker, "reset", group, "--to", "1", "--topic", "no-such")


def test_groups_and_offsets_go(broker: Broker, topic: str) -> None:
    group = unique_name("cli-gone")
    tell(broker, "reset", group, "--to", "earliest", "--topic", topic, "--execute")
    deleted = groups(broker, "delete", group, "--topic", f"{topic}:1", "--yes")
    assert (deleted.returncode, deleted.stdout) == (
        0,
        f"deleted the offset of {topic} partition 1\n",
    )
    assert committed(describe(broker, group)) == {(topic, 0): 0}
    said = refusal(broker, "delete", group, "--topic", f"{topic}:1", "--yes")
    assert f"has no committed offset of {topic} partition 1" in said
    deleted = groups(broker, "delete", group, "--yes")
    assert (deleted.returncode, deleted.stdout) == (0, f"deleted group {group}\n")
    assert "there is no group" in refusal(broker, "describe", group)
    assert "does not exist" in refusal(broker, "delete", group, "--yes")


def test_kafkas_tool_writes_files_that_are_read(broker: Broker, topic: str, tmp_path: Path) -> None:
    group = unique_name("cli-csv")
    tell(broker, "reset", group, "--to", "4", "--topic", topic, "--execute")
    made = java_tool(
        CONSUMER_GROUP_COMMAND,
        *("--bootstrap-server", broker.bootstrap, "--group", group, "--reset-offsets"),
        *("--to-current", "--all-topics", "--dry-run", "--export"),
    )
    assert made.exit_code == 0, made.output
    (tmp_path / "offsets.csv").write_text(made.stdout)
    tell(broker, "reset", group, "--to", "earliest", "--execute")
    tell(broker, "reset", group, "--from-file", str(tmp_path / "offsets.csv"), "--execute")
    assert committed(describe(broker, group)) == {(topic, 0): 4, (topic, 1): 0}
