"""Offsets without records: every client passes over the empty batch that stands for them.

Such a range is what key compaction leaves, or a void append. Here it is made by hand: the index of
a stopped broker gets a Parquet entry without files in place of one that it has.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import KafkaError
from tests.integration.conftest import PEER
from tests.integration.harness.admin import create_topic, end_offset
from tests.integration.harness.clients import Sent, assigned_consumer, produce_all, producer, take
from tests.integration.harness.java_tools import java_tool
from tests.integration.harness.kafka_python import KafkaConsumer, TopicPartition
from tests.integration.harness.kcat import kcat
from tests.integration.harness.towpath_process import TowpathProcess
from tests.integration.harness.waiting import wait_until

from towpath.log.object.entries import ENTRY_VERSION, decode
from towpath.metadata.keys import streams, topics
from towpath.metadata.proto import index_pb2
from towpath.metadata.sqlite.store import SqliteStore
from towpath.metadata.store import KeyValue
from towpath.runtime import inline_runtime

pytestmark = pytest.mark.skipif(PEER == "kafka", reason="a test of Towpath alone")

APPEND = 10
"""Records of one append: one entry of the index."""
APPENDS = 6
EMPTY_BATCH_BYTES = 61
LONG = "long"
LONG_VOID = 3_000_000_000
"""More offsets than one batch can span."""
READ_TIMEOUT_S = 30.0

Voids = tuple[int, ...]
"""Which of the appends lost their records."""

SHAPES: dict[str, Voids] = {
    "first": (0,),
    "middle": (2,),
    "neighbours": (2, 3),
    "alternating": (0, 2, 4),
    "all-but-the-last": (0, 1, 2, 3, 4),
    "last": (5,),
    "all": (0, 1, 2, 3, 4, 5),
    "untouched": (0, 1, 2, 3, 4, 5),
    "waiting-confluent": (0, 1, 2, 3, 4, 5),
    "waiting-python": (0, 1, 2, 3, 4, 5),
    "waiting-asyncio": (0, 1, 2, 3, 4, 5),
}

Read = Callable[[str, str, int, int], list[int]]
"""Bootstrap, topic, offset to begin at and number of records: their offsets."""


def with_confluent(bootstrap: str, topic: str, offset: int, count: int) -> list[int]:
    """Offsets read with confluent-kafka."""
    with assigned_consumer(bootstrap, {(topic, 0): offset}) as client:
        return [message.offset() for message in take(client, count, READ_TIMEOUT_S)]


def with_confluent_batch_by_batch(bootstrap: str, topic: str, offset: int, count: int) -> list[int]:
    """The same with answers that have room for one batch each."""
    one = {"fetch_message_max_bytes": EMPTY_BATCH_BYTES}
    with assigned_consumer(bootstrap, {(topic, 0): offset}, **one) as client:
        return [message.offset() for message in take(client, count, READ_TIMEOUT_S)]


def with_kafka_python(
    bootstrap: str, topic: str, offset: int, count: int, **settings: int
) -> list[int]:
    """Offsets read with kafka-python."""
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings)
    place = TopicPartition(topic, 0)
    client.assign([place])
    client.seek(place, offset)
    got: list[int] = []

    def read() -> bool:
        found = client.poll(timeout_ms=500, max_records=count - len(got)).get(place, [])
        got.extend(record.offset for record in found)
        return len(got) >= count

    try:
        wait_until(read, f"{count} records of {topic}", timeout_s=READ_TIMEOUT_S)
    finally:
        client.close()
    return got


def with_aiokafka(
    bootstrap: str, topic: str, offset: int, count: int, **settings: int
) -> list[int]:
    """Offsets read with aiokafka."""

    async def read() -> list[int]:
        client = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings)
        place = AioPartition(topic, 0)
        await client.start()
        try:
            client.assign([place])
            client.seek(place, offset)
            async with asyncio.timeout(READ_TIMEOUT_S):
                return [(await client.getone(place)).offset for _ in range(count)]
        finally:
            await client.stop()

    return asyncio.run(read())


def with_kcat(bootstrap: str, topic: str, offset: int, count: int) -> list[int]:
    """Offsets read with kcat, which ends by itself at the end of the partition."""
    place = ("-t", topic, "-p", "0", "-o", str(offset))
    lines = kcat(bootstrap, "-C", *place, "-e", "-q", "-f", "%o\\n").split()
    assert len(lines) == count
    return [int(line) for line in lines]


def with_java(bootstrap: str, topic: str, offset: int, count: int) -> list[int]:
    """Offsets read with the Java client."""
    done = java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"),
        *("--offset", str(offset), "--max-messages", str(count), "--timeout-ms", "30000"),
        *("--property", "print.offset=true", "--property", "print.value=false"),
    )
    assert done.exit_code == 0, done.output
    return [int(line.removeprefix("Offset:").strip()) for line in done.lines()]


CLIENTS: dict[str, Read] = {
    "confluent-kafka": with_confluent,
    "confluent-kafka batch by batch": with_confluent_batch_by_batch,
    "kafka-python": with_kafka_python,
    "kafka-python batch by batch": functools.partial(
        with_kafka_python, max_partition_fetch_bytes=EMPTY_BATCH_BYTES
    ),
    "aiokafka": with_aiokafka,
    "aiokafka batch by batch": functools.partial(
        with_aiokafka, max_partition_fetch_bytes=EMPTY_BATCH_BYTES
    ),
    "kcat": with_kcat,
}


def offsets_of(appends: Iterable[int]) -> list[int]:
    """The offsets of these appends."""
    return [append * APPEND + i for append in appends for i in range(APPEND)]


def left_of(voids: Voids) -> list[int]:
    """The offsets that still have records."""
    return offsets_of(append for append in range(APPENDS) if append not in voids)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TowpathProcess]:
    """A broker with a topic for each shape."""
    server = TowpathProcess(tmp_path_factory.mktemp("voids"))
    try:
        server.start()
        for topic in (*SHAPES, LONG):
            _fill(server.bootstrap, create_topic(server.bootstrap, topic))
        assert server.stop() == 0
        for shape, voids in SHAPES.items():
            asyncio.run(make_voids(server.data_dir, shape, voids))
        asyncio.run(make_long_void(server.data_dir, LONG))
        server.restart()
        yield server
    finally:
        server.kill()
        print(server.process.log_tail())


def _fill(bootstrap: str, topic: str) -> None:
    """Each append is acknowledged before the next, so that it is an entry of its own."""
    client = producer(bootstrap)
    for append in range(APPENDS):
        produce_all(client, topic, [Sent(b"%d" % append)] * APPEND)


async def make_voids(data_dir: Path, topic: str, voids: Voids) -> None:
    """Let index entries of a stopped broker's topic say that their records are gone."""
    async with _index(data_dir, topic) as (store, rows):
        assert [decode(row).end for row in rows] == [APPEND * (i + 1) for i in range(APPENDS)]
        for append in voids:
            await store.put(rows[append].key, _void(APPEND))


async def make_long_void(data_dir: Path, topic: str) -> None:
    """Let the last entry of a topic be a void that reaches much further than the entry did."""
    async with _index(data_dir, topic) as (store, rows):
        last = decode(rows[-1])
        end = last.start + LONG_VOID
        key = streams.index_entry(last.stream_id, end, last.cumulative_size)
        await store.put(key, _void(LONG_VOID))
        await store.delete(last.key)


def _void(record_count: int) -> bytes:
    return index_pb2.IndexEntry(
        version=ENTRY_VERSION, file_type=index_pb2.PARQUET, record_count=record_count
    ).SerializeToString()


@asynccontextmanager
async def _index(data_dir: Path, topic: str) -> AsyncIterator[tuple[SqliteStore, list[KeyValue]]]:
    """The store of a stopped broker, and the index entries of a topic's only partition."""
    store = await SqliteStore.open(data_dir / "metadata.sqlite", inline_runtime())
    try:
        found = await store.get(topics.topic(topic))
        assert found is not None
        stream = topics.stream_id(topics.TopicRecord.decode(found.value).number, 0)
        yield store, await store.scan(streams.index_prefix(stream), streams.index_end(stream))
    finally:
        await store.close()


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if left_of(SHAPES[shape])])
def test_records_around_voids_are_read(server: TowpathProcess, shape: str, name: str) -> None:
    expected = left_of(SHAPES[shape])
    assert CLIENTS[name](server.bootstrap, shape, 0, len(expected)) == expected


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("offset", [20, 25, 39])
def test_reading_may_begin_inside_a_void(server: TowpathProcess, offset: int, name: str) -> None:
    expected = offsets_of([4, 5])
    assert CLIENTS[name](server.bootstrap, "neighbours", offset, len(expected)) == expected


def test_the_java_client_passes_over_voids(server: TowpathProcess) -> None:
    for shape in ("alternating", "all-but-the-last"):
        expected = left_of(SHAPES[shape])
        assert with_java(server.bootstrap, shape, 0, len(expected)) == expected


@pytest.mark.parametrize("name", [name for name in CLIENTS if name != "kcat"])
@pytest.mark.parametrize("shape", ["last", "all"])
def test_records_after_a_void_at_the_end_are_read(
    server: TowpathProcess, shape: str, name: str
) -> None:
    start = end_offset(server.bootstrap, shape)
    produce_all(producer(server.bootstrap), shape, [Sent(b"new")])
    expected = [*left_of(SHAPES[shape]), *range(APPENDS * APPEND, start + 1)]
    assert CLIENTS[name](server.bootstrap, shape, 0, len(expected)) == expected


@pytest.mark.parametrize("name", CLIENTS)
def test_a_void_longer_than_a_batch_can_span(server: TowpathProcess, name: str) -> None:
    produce_all(producer(server.bootstrap), LONG, [Sent(b"new")])
    first = (APPENDS - 1) * APPEND + LONG_VOID
    expected = [
        *offsets_of(range(APPENDS - 1)),
        *range(first, end_offset(server.bootstrap, LONG)),
    ]
    assert CLIENTS[name](server.bootstrap, LONG, 0, len(expected)) == expected


class TestNothingButVoids:
    """An answer that holds nothing but a void moves the client on: it comes to the end of the
    partition, waits there, and gets what is written next."""

    def test_confluent_kafka(self, server: TowpathProcess) -> None:
        settings = {"enable_partition_eof": True}
        with assigned_consumer(
            server.bootstrap, {("waiting-confluent", 0): 0}, **settings
        ) as client:
            message = wait_until(lambda: client.poll(1), "the end", timeout_s=READ_TIMEOUT_S)
            assert message.error().code() == KafkaError._PARTITION_EOF
            assert message.offset() == end_offset(server.bootstrap, "waiting-confluent")
            expected = _produce_one(server, "waiting-confluent")
            assert [message.offset() for message in take(client, 1)] == expected

    def test_kafka_python(self, server: TowpathProcess) -> None:
        client = KafkaConsumer(bootstrap_servers=server.bootstrap, group_id=None)
        try:
            place = TopicPartition("waiting-python", 0)
            end = end_offset(server.bootstrap, "waiting-python")
            client.assign([place])
            client.seek(place, 0)
            wait_until(lambda: _is_at(client, place, end), "the end", timeout_s=READ_TIMEOUT_S)
            expected = _produce_one(server, "waiting-python")
            found = wait_until(lambda: client.poll(timeout_ms=500), "the new record")
            assert [record.offset for record in found[place]] == expected
        finally:
            client.close()

    async def test_aiokafka(self, server: TowpathProcess) -> None:
        client = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, group_id=None)
        await client.start()
        try:
            place = AioPartition("waiting-asyncio", 0)
            end = end_offset(server.bootstrap, "waiting-asyncio")
            client.assign([place])
            client.seek(place, 0)
            async with asyncio.timeout(READ_TIMEOUT_S):
                while await client.position(place) < end:
                    await client.getmany(place, timeout_ms=200)
                expected = _produce_one(server, "waiting-asyncio")
                assert [(await client.getone(place)).offset] == expected
        finally:
            await client.stop()

    def test_kcat(self, server: TowpathProcess) -> None:
        assert with_kcat(server.bootstrap, "untouched", 0, 0) == []


def _is_at(client: Any, place: Any, end: int) -> bool:
    """Whether a kafka-python client has come so far; nothing but voids lies before it."""
    client.poll(timeout_ms=200)
    return bool(client.position(place) == end)


def _produce_one(server: TowpathProcess, topic: str) -> list[int]:
    """One more record: its offset."""
    return produce_all(producer(server.bootstrap), topic, [Sent(b"new")])
