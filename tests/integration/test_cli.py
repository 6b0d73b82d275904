"""The `towpath` command against a running broker: produce, consume, topics, up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.conftest import PEER, Broker
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.clients import Sent, consume, produce_all, producer
from tests.integration.harness.towpath_process import REPOSITORY, TowpathProcess
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import Connection

pytestmark = pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone")

CLI_TIMEOUT_S = 60
FIRST_MS = 1_650_000_000_000


def command(*args: str) -> list[str]:
    """The command line of the CLI as it is in this tree."""
    return [sys.executable, "-m", "towpath", *args]


def environment() -> dict[str, str]:
    """This environment with the tree's sources."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}


def run(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        command(*args), input=stdin, capture_output=True, timeout=CLI_TIMEOUT_S, env=environment()
    )


def towpath(broker: Broker, *args: str, stdin: bytes = b"") -> bytes:
    """Run a client command that must succeed; its stdout."""
    done = run(*args, "--bootstrap", broker.bootstrap, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def consume_json(broker: Broker, topic: str, *args: str) -> list[dict[str, Any]]:
    """Records as `towpath consume --output json` prints them."""
    out = towpath(broker, "consume", topic, *args, "--output", "json")
    return [json.loads(line) for line in out.splitlines()]


def test_produce_then_consume(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap)
    towpath(
        broker, "produce", topic, "--key-separator", ":", "--header", "k=v", "--header", "k=w",
        stdin=b"a:1\nb:2:3\n",
    )  # fmt: skip
    got = consume_json(broker, topic, "--from", "earliest", "--count", "2")
    assert [(r["offset"], r["key"], r["value"]) for r in got] == [(0, "a", "1"), (1, "b", "2:3")]
    assert got[0]["headers"] == [["k", "v"], ["k", "w"]]
    assert towpath(broker, "consume", topic, "--from", "earliest", "--count", "2") == b"1\n2:3\n"


def test_consume_from_every_kind_of_place(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap)
    records = [Sent(b"%d" % i, timestamp_ms=FIRST_MS + 1000 * i) for i in range(10)]
    produce_all(producer(broker.bootstrap), topic, records)

    def first(place: str) -> int:
        (record,) = consume_json(broker, topic, "--from", place, "--count", "1")
        return int(record["offset"])

    assert first("earliest") == 0
    assert first("4") == 4
    assert first(f"@{FIRST_MS + 6500}") == 7
    assert first("2022-04-15T05:20:03Z") == 3
    assert first("-2") == 8


def test_consume_latest_waits_for_what_comes(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap)
    produce_all(producer(broker.bootstrap), topic, [Sent(b"old")] * 3)
    args = ("consume", topic, "--count", "1", "--bootstrap", broker.bootstrap)
    waiting = subprocess.Popen(command(*args), stdout=subprocess.PIPE, env=environment())
    try:

        def sent_and_done() -> bool:
            # It may not have looked up the end yet: send until one came after that.
            produce_all(producer(broker.bootstrap), topic, [Sent(b"new")])
            return waiting.poll() is not None

        wait_until(sent_and_done, "the consumer ended", timeout_s=30, interval_s=0.3)
        assert waiting.stdout is not None
        assert (waiting.returncode, waiting.stdout.read()) == (0, b"new\n")
    finally:
        waiting.kill()
        waiting.wait()


def test_consume_until_the_end_of_all_partitions(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, partitions=3)
    produce_all(
        producer(broker.bootstrap), topic, [Sent(b"%d" % i, partition=i % 2) for i in range(20)]
    )
    out = towpath(broker, "consume", topic, "--from", "earliest", "--until-end")
    assert sorted(int(line) for line in out.splitlines()) == list(range(20))


def test_topics_from_creation_to_deletion(broker: Broker) -> None:
    topic = unique_name("cli")
    towpath(
        broker, "topics", "create", topic, "--partitions", "3", "--config", "retention.ms=5000"
    )  # fmt: skip
    rows = json.loads(towpath(broker, "topics", "list", "--output", "json"))
    assert {"name": topic, "partitions": 3, "internal": False} in rows
    described = towpath(broker, "topics", "describe", topic, "--output", "json").decode()
    (report,) = json.loads(described)
    assert report["name"] == topic
    assert len(report["partitions"]) == 3
    assert "5000" in described
    towpath(
        broker, "topics", "alter", topic, "--config", "retention.ms=7777", "--partitions", "5"
    )  # fmt: skip
    described = towpath(broker, "topics", "describe", topic, "--output", "json").decode()
    assert len(json.loads(described)[0]["partitions"]) == 5
    assert "7777" in described
    towpath(broker, "topics", "delete", topic, "--yes")
    rows = json.loads(towpath(broker, "topics", "list", "--output", "json"))
    assert topic not in {row["name"] for row in rows}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["topics", "create", "bad/name"], "bad/name"),
        (["topics", "create", "{existing}"], "exists"),
        (["topics", "describe", "{absent}"], "{absent}"),
        (["topics", "delete", "{absent}", "--yes"], "{absent}"),
        (["topics", "alter", "{existing}", "--partitions", "1"], "{existing}"),
        (["topics", "alter", "{existing}", "--config", "no.such=1"], "no.such"),
        (["consume", "{absent}", "--from", "earliest"], "{absent}"),
        (["consume", "{existing}", "--from", "500"], "{existing}"),
    ],
)
def test_failures_say_what_is_wrong(broker: Broker, args: list[str], says: str) -> None:
    names = {"existing": create_topic(broker.bootstrap, partitions=2), "absent": unique_name("no")}
    filled = [arg.format(**names) for arg in args]
    done = run(*filled, "--bootstrap", broker.bootstrap)
    message = done.stderr.decode()
    assert done.returncode == 1, message
    assert says.format(**names) in message
    assert "Traceback" not in message


def test_no_broker_is_an_error_in_time(tmp_path: Any) -> None:
    done = run("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr.decode()


def test_up_stops_cleanly_and_serves_the_same_data_again(
    start_towpath: Callable[..., TowpathProcess],
) -> None:
    server = start_towpath()
    topic = unique_name("up")
    assert produce_all(producer(server.bootstrap), topic, [Sent(b"%d" % i) for i in range(50)])
    text = server.process.log_tail()
    assert server.bootstrap in text, "the banner shows the address"
    assert server.stop() == 0
    server.restart()
    got = consume(server.bootstrap, topic, 50)
    assert [(m.offset(), m.value()) for m in got] == [(i, b"%d" % i) for i in range(50)]
    assert produce_all(producer(server.bootstrap), topic, [Sent(b"next")]) == [50]
    assert server.stop() == 0


def test_up_survives_a_kill(start_towpath: Callable[..., TowpathProcess]) -> None:
    server = start_towpath()
    topic = create_topic(server.bootstrap, config={"retention.ms": "999000"})
    produce_all(producer(server.bootstrap), topic, [Sent(b"%d" % i) for i in range(50)])
    server.kill()
    server.restart()
    with Connection("127.0.0.1", server.kafka_port) as connection:
        assert connection.list_offset(topic, 0, -1)[2] == 50
    assert [m.value() for m in consume(server.bootstrap, topic, 50)] == [
        b"%d" % i for i in range(50)
    ]


def test_interrupt_stops_up_too(start_towpath: Callable[..., TowpathProcess]) -> None:
    server = start_towpath()
    os.kill(server.process.pid, signal.SIGINT)
    assert server.process.wait() in (0, 130)


def test_a_port_in_use_is_said(broker: Broker, tmp_path: Any) -> None:
    done = run(
        *("up", "--data-dir", str(tmp_path / "data"), "--kafka-port", str(broker.kafka_port)),
        *("--http-port", "0"),
    )
    assert done.returncode != 0
    assert str(broker.kafka_port) in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_setting_from_the_environment(start_towpath: Callable[..., TowpathProcess]) -> None:
    server = start_towpath(settings={"num_partitions": "7"})
    topic = unique_name("env")
    done = run("topics", "create", topic, "--bootstrap", server.bootstrap)
    assert done.returncode == 0, done.stderr.decode()
    listed = run("topics", "list", "--output", "json", "--bootstrap", server.bootstrap)
    assert {"name": topic, "partitions": 7, "internal": False} in json.loads(listed.stdout)
