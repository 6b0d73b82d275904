"""kcat: what a person types first."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, end_offset, unique_name
from tests.integration.harness.clients import COMPRESSIONS, Sent, produce_all, producer
from tests.integration.harness.kcat import kcat, run_kcat
from tests.integration.harness.wire import Connection

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")

FIND_COORDINATOR = 10
FIRST_MS = 1_650_000_000_000


def consumed(bootstrap: str, topic: str, *args: str) -> list[bytes]:
    """The lines a consumer prints up to the end of the partition."""
    out = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", *args)
    return out.splitlines()


def json_of(bootstrap: str, topic: str, *args: str) -> list[dict[str, Any]]:
    """The records as kcat's JSON envelopes."""
    return [json.loads(line) for line in consumed(bootstrap, topic, "-J", *args)]


def test_metadata(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, partitions=3)
    text = kcat(broker.bootstrap, "-L", "-t", topic).decode()
    assert " 1 brokers:" in text
    assert f"at 127.0.0.1:{broker.kafka_port}" in text
    assert f'topic "{topic}" with 3 partitions:' in text
    found = json.loads(kcat(broker.bootstrap, "-L", "-J"))
    assert [b["name"] for b in found["brokers"]] == [f"127.0.0.1:{broker.kafka_port}"]
    (mine,) = [entry for entry in found["topics"] if entry["topic"] == topic]
    node = found["brokers"][0]["id"]
    assert found["controllerid"] == node
    assert mine["partitions"] == [
        {"partition": p, "leader": node, "replicas": [{"id": node}], "isrs": [{"id": node}]}
        for p in range(3)
    ]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_lines_in_lines_out(bootstrap: str, compression: str) -> None:
    topic = create_topic(bootstrap)
    lines = [f"line {i} ".encode() + b"x" * i for i in range(200)]
    kcat(bootstrap, "-P", "-t", topic, "-z", compression, stdin=b"\n".join(lines))
    assert consumed(bootstrap, topic) == lines
    assert end_offset(bootstrap, topic) == 200


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_an_older_librdkafka_really_compresses(broker: Broker, compression: str) -> None:
    """Librdkafka 2.0 sends batches uncompressed, silently, to brokers whose Produce versions do
    not start low enough. A batch that only fits when compressed shows that it did not."""
    bootstrap = broker.bootstrap
    topic = create_topic(bootstrap, config={"max.message.bytes": "20000"})
    with Connection("127.0.0.1", broker.kafka_port) as connection:
        if compression == "lz4" and FIND_COORDINATOR not in connection.api_versions():
            pytest.xfail("librdkafka 2.0 knows lz4 only of brokers that offer FindCoordinator")
    settings = ("-X", "linger.ms=1000", "-X", "message.max.bytes=1000000")
    kcat(
        bootstrap, "-P", "-t", topic, "-z", compression, *settings, stdin=b"y" * 200_000
    )  # fmt: skip
    assert consumed(bootstrap, topic) == [b"y" * 200_000]


def test_keys_headers_and_json(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    headers = ("-H", "a=1", "-H", "b=two", "-H", "a=3")
    before_ms = int(time.time() * 1000)
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", *headers, stdin=b"k1:v1\nk2:v2\n")
    assert consumed(bootstrap, topic, "-K", ":") == [b"k1:v1", b"k2:v2"]
    assert consumed(bootstrap, topic, "-f", "%h|%o|%p\\n")[0] == b"a=1,b=two,a=3|0|0"
    got = json_of(bootstrap, topic)
    assert [(r["key"], r["payload"], r["offset"]) for r in got] == [
        ("k1", "v1", 0),
        ("k2", "v2", 1),
    ]
    assert got[0]["headers"] == ["a", "1", "b", "two", "a", "3"]
    assert got[0]["tstype"] == "create"
    assert before_ms <= got[0]["ts"] <= int(time.time() * 1000)


def test_null_values(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-Z", stdin=b"dead:\nalive:x\n")
    assert [(r["key"], r["payload"]) for r in json_of(bootstrap, topic)] == [
        ("dead", None),
        ("alive", "x"),
    ]


def test_one_large_file_as_one_message(bootstrap: str, tmp_path: Any) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": "3000000"})
    content = bytes(range(256)) * 8000
    file = tmp_path / "message"
    file.write_bytes(content)
    kcat(bootstrap, "-P", "-t", topic, "-X", "message.max.bytes=3000000", str(file))
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-D", "") == content


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("beginning", list(range(20))),
        ("5", list(range(5, 20))),
        ("-5", list(range(15, 20))),
        (f"s@{FIRST_MS + 95}", list(range(10, 20))),
        (f"s@{FIRST_MS + 100}", list(range(10, 20))),
        (f"s@{FIRST_MS - 100}", list(range(20))),
    ],
)
def test_positions(bootstrap: str, position: str, expected: list[int]) -> None:
    topic = create_topic(bootstrap)
    records = [Sent(b"%d" % i, timestamp_ms=FIRST_MS + 10 * i) for i in range(20)]
    produce_all(producer(bootstrap), topic, records)
    assert [int(line) for line in consumed(bootstrap, topic, "-o", position)] == expected


def test_a_stretch_of_time(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    records = [Sent(b"%d" % i, timestamp_ms=FIRST_MS + 10 * i) for i in range(20)]
    produce_all(producer(bootstrap), topic, records)
    stretch = ("-o", f"s@{FIRST_MS + 50}", "-o", f"e@{FIRST_MS + 80}")
    assert [int(line) for line in consumed(bootstrap, topic, *stretch)] == [5, 6, 7]


def test_query_by_time(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    records = [Sent(b"%d" % i, timestamp_ms=FIRST_MS + 10 * i) for i in range(20)]
    produce_all(producer(bootstrap), topic, records)

    def query(timestamp: int) -> str:
        return kcat(bootstrap, "-Q", "-t", f"{topic}:0:{timestamp}").decode().strip()

    assert query(FIRST_MS + 55) == f"{topic} [0] offset 6"
    assert query(-1) == f"{topic} [0] offset 20"
    assert query(-2) == f"{topic} [0] offset 0"


def test_counted_consumption_of_several_partitions(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=3)
    for partition in ("0", "1", "2"):
        kcat(bootstrap, "-P", "-t", topic, "-p", partition, stdin=partition.encode() * 3 + b"\n")
    out = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-f", "%p:%s\\n").splitlines()
    assert sorted(out) == [b"0:000", b"1:111", b"2:222"]


def test_an_unknown_topic_is_an_error(bootstrap: str) -> None:
    done = run_kcat(bootstrap, "-C", "-t", unique_name("absent"), "-p", "0", "-e")
    assert done.returncode != 0
    assert b"Unknown topic" in done.stderr
