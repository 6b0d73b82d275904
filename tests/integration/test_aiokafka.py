"""aiokafka: records and offsets through an asyncio client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as aio_errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, end_offset, unique_name
from tests.integration.harness.clients import Sent, varied_records

COMPRESSIONS = (None, "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_650_000_000_000
TEN_MB = 10_000_000


@asynccontextmanager
async def running(client: Any) -> AsyncIterator[Any]:
    """A client between its start and its stop."""
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def produce(bootstrap: str, topic: str, records: list[Sent], **settings: Any) -> list[int]:
    """Send records and wait; the offset each was acknowledged with (-1 with acks 0)."""
    client = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)
    async with running(client):
        sends = [
            await client.send(
                topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        done = await asyncio.wait_for(asyncio.gather(*sends), 30)
        return [-1 if metadata is None else metadata.offset for metadata in done]


async def consume(
    bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0, **settings: Any
) -> list[Any]:
    """`count` records of one partition from an offset on, without a group."""
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings)
    async with running(client):
        where = TopicPartition(topic, partition)
        client.assign([where])
        client.seek(where, offset)
        got: list[Any] = []
        async with asyncio.timeout(30):
            while len(got) < count:
                found = await client.getmany(where, timeout_ms=500, max_records=count - len(got))
                got += found.get(where, [])
        return got


def as_sent(record: Any) -> Sent:
    """What must equal the record that was sent."""
    headers = [(name, value) for name, value in record.headers]
    return Sent(record.value, record.key, headers, record.timestamp, record.partition)


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_records_come_back_as_sent(
    bootstrap: str, compression: str | None, idempotent: bool
) -> None:
    topic = create_topic(bootstrap)
    records = varied_records(300)
    offsets = await produce(
        bootstrap, topic, records, compression_type=compression, enable_idempotence=idempotent
    )
    assert offsets == list(range(300))
    got = await consume(bootstrap, topic, 300)
    assert [as_sent(record) for record in got] == records
    assert [record.offset for record in got] == list(range(300))


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acks_level_stores(bootstrap: str, acks: int | str) -> None:
    topic = create_topic(bootstrap)
    await produce(bootstrap, topic, [Sent(b"%d" % i) for i in range(50)], acks=acks)
    got = await consume(bootstrap, topic, 50)
    assert [record.value for record in got] == [b"%d" % i for i in range(50)]


async def test_ten_megabyte_value(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": str(TEN_MB + 10_000)})
    value = bytes(range(256)) * (TEN_MB // 256)
    size = TEN_MB + 10_000
    await produce(bootstrap, topic, [Sent(value)], max_request_size=size, max_batch_size=size)
    (record,) = await consume(bootstrap, topic, 1)
    assert record.value == value


async def test_oversized_message_is_refused(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": "1000"})
    with pytest.raises(aio_errors.MessageSizeTooLargeError):
        await produce(bootstrap, topic, [Sent(b"x" * 2000)])
    assert end_offset(bootstrap, topic) == 0


async def test_log_append_time(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    await produce(bootstrap, topic, [Sent(b"v", timestamp_ms=FIRST_MS)], compression_type="gzip")
    (record,) = await consume(bootstrap, topic, 1)
    assert record.timestamp_type == 1
    assert before_ms <= record.timestamp <= int(time.time() * 1000)


async def test_fetch_from_the_middle_of_a_batch(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    records = [Sent(b"%d" % i) for i in range(100)]
    await produce(bootstrap, topic, records, max_batch_size=100_000)
    for offset in (1, 42, 99):
        got = await consume(bootstrap, topic, 100 - offset, offset=offset)
        assert [record.offset for record in got] == list(range(offset, 100))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_isolation_levels(bootstrap: str, isolation: str) -> None:
    topic = create_topic(bootstrap)
    await produce(bootstrap, topic, [Sent(b"%d" % i) for i in range(10)])
    assert len(await consume(bootstrap, topic, 10, isolation_level=isolation)) == 10


async def test_offsets_by_position_and_time(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    where = TopicPartition(topic, 0)
    records = [Sent(b"v", timestamp_ms=FIRST_MS + 10 * i) for i in range(20)]
    await produce(bootstrap, topic, records)
    async with running(AIOKafkaConsumer(bootstrap_servers=bootstrap)) as client:
        assert await client.beginning_offsets([where]) == {where: 0}
        assert await client.end_offsets([where]) == {where: 20}
        found = (await client.offsets_for_times({where: FIRST_MS + 55}))[where]
        assert (found.offset, found.timestamp) == (6, FIRST_MS + 60)
        assert (await client.offsets_for_times({where: FIRST_MS + 5000}))[where] is None


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_an_offset_out_of_range(bootstrap: str, reset: str) -> None:
    topic = create_topic(bootstrap)
    where = TopicPartition(topic, 0)
    await produce(bootstrap, topic, [Sent(b"v")] * 10)
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset=reset)
    async with running(client):
        client.assign([where])
        client.seek(where, 500)
        if reset == "none":
            with pytest.raises(aio_errors.OffsetOutOfRangeError):
                await asyncio.wait_for(client.getone(where), 20)
        else:
            assert (await asyncio.wait_for(client.getone(where), 20)).offset == 0


async def test_a_waiting_consumer_is_woken(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    where = TopicPartition(topic, 0)
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=25_000)
    async with running(client), running(AIOKafkaProducer(bootstrap_servers=bootstrap)) as sender:
        client.assign([where])
        client.seek(where, 0)
        for i in range(5):
            waiting = asyncio.ensure_future(client.getone(where))
            await asyncio.sleep(0)
            await sender.send_and_wait(topic, b"%d" % i)
            # Well within the fetch's waiting time: the produce itself ended the wait.
            assert (await asyncio.wait_for(waiting, 10)).value == b"%d" % i


async def test_administration(bootstrap: str) -> None:
    topic = unique_name()
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        made = await admin.create_topics([NewTopic(topic, 2, 1)])
        assert [error for _, error, *_ in made.topic_errors] == [0]
        again = await admin.create_topics([NewTopic(topic, 2, 1)])
        assert [error for _, error, *_ in again.topic_errors] == [36]
        assert topic in await admin.list_topics()
        await admin.create_partitions({topic: NewPartitions(4)})
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 4
        await produce(bootstrap, topic, [Sent(b"v")] * 5)
        where = TopicPartition(topic, 0)
        deleted = await admin.delete_records({where: RecordsToDelete(before_offset=3)})
        assert deleted == {where: 3}
        gone = await admin.delete_topics([topic])
        assert [error for _, error, *_ in gone.topic_error_codes] == [0]
    finally:
        await admin.close()


async def test_a_transactional_producer_is_refused_clearly(broker: Broker) -> None:
    if broker.is_kafka:
        pytest.skip("Apache Kafka has transactions")
    client = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=unique_name("tx")
    )
    try:
        with pytest.raises(aio_errors.KafkaError):
            await asyncio.wait_for(client.start(), 20)
    finally:
        await client.stop()
