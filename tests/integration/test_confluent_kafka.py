"""confluent-kafka (librdkafka): records in, the same records out."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
)
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, end_offset, unique_name
from tests.integration.harness.clients import (
    COMPRESSIONS,
    Sent,
    as_sent,
    assigned_consumer,
    consume,
    produce_all,
    producer,
    take,
    varied_records,
)

TEN_MB = 10_000_000


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_sent(bootstrap: str, compression: str, idempotent: bool) -> None:
    topic = create_topic(bootstrap)
    records = varied_records(500)
    client = producer(bootstrap, compression_type=compression, enable_idempotence=idempotent)
    assert produce_all(client, topic, records) == list(range(500))
    got = consume(bootstrap, topic, 500)
    assert [as_sent(message) for message in got] == records
    assert [message.offset() for message in got] == list(range(500))


def test_compressions_mix_in_one_partition(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    records = []
    for compression in COMPRESSIONS:
        part = varied_records(50, tag=compression)
        produce_all(producer(bootstrap, compression_type=compression), topic, part)
        records += part
    assert [as_sent(message) for message in consume(bootstrap, topic, 250)] == records


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_acks_level_stores(bootstrap: str, acks: int) -> None:
    topic = create_topic(bootstrap)
    client = producer(bootstrap, acks=acks, enable_idempotence=False)
    offsets = produce_all(client, topic, [Sent(b"x%d" % i) for i in range(100)])
    if acks != 0:
        assert offsets == list(range(100))
    got = consume(bootstrap, topic, 100)
    assert [message.value() for message in got] == [b"x%d" % i for i in range(100)]
    assert end_offset(bootstrap, topic) == 100


def test_empty_and_null_are_told_apart(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    records = [Sent(b"", b""), Sent(None, None), Sent(b"", None), Sent(None, b"")]
    produce_all(producer(bootstrap), topic, records)
    got = consume(bootstrap, topic, 4)
    assert [(m.value(), m.key()) for m in got] == [(r.value, r.key) for r in records]


def test_headers_keep_order_duplicates_and_nulls(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    headers = [("a", b"1"), ("b", None), ("a", b"2"), ("a", None), ("", b""), ("a", b"1")]
    produce_all(producer(bootstrap), topic, [Sent(b"v", headers=headers)])
    assert consume(bootstrap, topic, 1)[0].headers() == headers


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_ten_megabyte_value(bootstrap: str, compression: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": str(TEN_MB + 10_000)})
    value = bytes(range(256)) * (TEN_MB // 256)
    records = [Sent(b"before"), Sent(value), Sent(b"after")]
    client = producer(bootstrap, message_max_bytes=TEN_MB + 100_000, compression_type=compression)
    assert produce_all(client, topic, records) == [0, 1, 2]
    got = consume(bootstrap, topic, 3)
    assert [message.value() for message in got] == [r.value for r in records]


def test_oversized_message_is_refused_and_stores_nothing(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": "1000"})
    client = producer(bootstrap)
    errors: list[Any] = []
    client.produce(topic, b"x" * 2000, on_delivery=lambda error, _: errors.append(error))
    client.flush(30)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert end_offset(bootstrap, topic) == 0
    # A partition that refused a batch takes the next one, at the next offset.
    assert produce_all(producer(bootstrap), topic, [Sent(b"x" * 500)]) == [0]


def test_create_time_is_kept(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    stamps = [1_600_000_000_000, 1_500_000_000_000, 1_600_000_000_001, 1]
    produce_all(producer(bootstrap), topic, [Sent(b"v", timestamp_ms=ms) for ms in stamps])
    got = consume(bootstrap, topic, 4)
    assert [m.timestamp() for m in got] == [(TIMESTAMP_CREATE_TIME, ms) for ms in stamps]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_log_append_time_is_the_brokers(bootstrap: str, compression: str) -> None:
    topic = create_topic(bootstrap, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    client = producer(bootstrap, compression_type=compression)
    produce_all(client, topic, [Sent(b"v%d" % i, timestamp_ms=1 + i) for i in range(10)])
    after_ms = int(time.time() * 1000)
    got = consume(bootstrap, topic, 10)
    assert {message.timestamp()[0] for message in got} == {TIMESTAMP_LOG_APPEND_TIME}
    assert all(before_ms <= message.timestamp()[1] <= after_ms for message in got)
    assert [message.value() for message in got] == [b"v%d" % i for i in range(10)]


def test_explicit_partitions(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=5)
    records = [Sent(b"%d" % i, partition=i % 5) for i in range(50)]
    produce_all(producer(bootstrap), topic, records)
    for partition in range(5):
        got = consume(bootstrap, topic, 10, partition=partition)
        assert [m.value() for m in got] == [b"%d" % i for i in range(partition, 50, 5)]
        assert [m.offset() for m in got] == list(range(10))


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_fetch_from_the_middle_of_a_batch(bootstrap: str, compression: str) -> None:
    topic = create_topic(bootstrap)
    client = producer(
        bootstrap, linger_ms=500, batch_num_messages=100, compression_type=compression
    )
    produce_all(client, topic, [Sent(b"%d" % i) for i in range(300)])
    for offset in (1, 50, 99, 100, 101, 250, 299):
        got = consume(bootstrap, topic, 300 - offset, offset=offset)
        assert [m.offset() for m in got] == list(range(offset, 300))
        assert got[0].value() == b"%d" % offset


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_both_isolation_levels_read_everything(bootstrap: str, isolation: str) -> None:
    topic = create_topic(bootstrap)
    produce_all(producer(bootstrap), topic, [Sent(b"%d" % i) for i in range(20)])
    got = consume(bootstrap, topic, 20, isolation_level=isolation)
    assert [m.value() for m in got] == [b"%d" % i for i in range(20)]


def test_a_waiting_consumer_gets_what_is_produced_later(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    client = producer(bootstrap)
    with assigned_consumer(bootstrap, {(topic, 0): 0}, fetch_wait_max_ms=20_000) as waiting:
        assert waiting.poll(0.3) is None
        for i in range(5):
            produce_all(client, topic, [Sent(b"%d" % i)])
            # Well within the fetch's waiting time: the produce itself ended the wait.
            assert take(waiting, 1, timeout_s=10)[0].value() == b"%d" % i


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_an_offset_out_of_range_is_reset(bootstrap: str, reset: str) -> None:
    topic = create_topic(bootstrap)
    client = producer(bootstrap)
    produce_all(client, topic, [Sent(b"old%d" % i) for i in range(10)])
    with assigned_consumer(bootstrap, {(topic, 0): 1000}, auto_offset_reset=reset) as consumer:
        if reset == "latest":
            # Nothing to read yet. The reset is done when the next record comes through.
            deadline = time.monotonic() + 20
            got: list[Any] = []
            while not got and time.monotonic() < deadline:
                produce_all(client, topic, [Sent(b"new")])
                got = consumer.consume(1, 0.5)
            assert got[0].value() == b"new"
            assert got[0].offset() >= 10
        else:
            assert [m.offset() for m in take(consumer, 10)] == list(range(10))


def test_an_offset_out_of_range_is_an_error_without_reset(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    with assigned_consumer(bootstrap, {(topic, 0): 1000}) as consumer:
        deadline = time.monotonic() + 20
        while (message := consumer.poll(1)) is None:
            assert time.monotonic() < deadline
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_watermarks_follow_the_log(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    with assigned_consumer(bootstrap, {(topic, 0): 0}) as consumer:
        where = consumer.assignment()[0]
        assert consumer.get_watermark_offsets(where, timeout=20) == (0, 0)
        produce_all(producer(bootstrap), topic, [Sent(b"v")] * 7)
        assert consumer.get_watermark_offsets(where, timeout=20) == (0, 7)


def test_producing_makes_an_unknown_topic(bootstrap: str) -> None:
    topic = unique_name("auto")
    assert produce_all(producer(bootstrap), topic, [Sent(b"first")]) == [0]
    assert consume(bootstrap, topic, 1)[0].value() == b"first"


def test_consuming_does_not_make_an_unknown_topic(bootstrap: str) -> None:
    topic = unique_name("absent")
    with assigned_consumer(bootstrap, {(topic, 0): 0}) as consumer:
        assert consumer.poll(0.5) is None
        seen = consumer.list_topics(topic, timeout=20).topics[topic]
        assert seen.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert topic not in consumer.list_topics(timeout=20).topics


def test_an_unknown_partition_is_an_error(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=2)
    with pytest.raises((KafkaException, AssertionError), match=r"_UNKNOWN_PARTITION|UNKNOWN"):
        produce_all(producer(bootstrap), topic, [Sent(b"v", partition=7)])


def test_a_bad_topic_name_is_an_error(bootstrap: str) -> None:
    with pytest.raises((KafkaException, AssertionError), match=r"TOPIC_EXCEPTION|_UNKNOWN_TOPIC"):
        produce_all(producer(bootstrap, message_timeout_ms=8000), "not/allowed", [Sent(b"v")])


def test_a_transactional_producer_is_refused_clearly(broker: Broker) -> None:
    """Transactions are not offered; the refusal says so at once, as a fatal error."""
    if broker.is_kafka:
        pytest.skip("Apache Kafka has transactions")
    client = producer(broker.bootstrap, transactional_id=unique_name("tx"))
    with pytest.raises(KafkaException) as refusal:
        client.init_transactions(20)
    error = refusal.value.args[0]
    assert error.code() != KafkaError._TIMED_OUT, error
    assert not error.retriable(), error


def test_many_producers_share_a_partition_densely(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    clients = [producer(bootstrap, enable_idempotence=i % 2 == 0) for i in range(4)]
    acknowledged: dict[int, bytes] = {}
    for round_number in range(10):
        for number, client in enumerate(clients):
            values = [b"%d-%d-%d" % (number, round_number, i) for i in range(20)]
            offsets = produce_all(client, topic, [Sent(value) for value in values])
            acknowledged.update(zip(offsets, values, strict=True))
    assert sorted(acknowledged) == list(range(800))
    got = {message.offset(): message.value() for message in consume(bootstrap, topic, 800)}
    assert got == acknowledged


def test_order_within_a_key(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=4)
    client = producer(bootstrap)
    for i in range(1000):
        client.produce(topic, b"%d" % i, key=b"k%d" % (i % 13))
    assert client.flush(30) == 0
    by_key: dict[bytes, list[int]] = defaultdict(list)
    with assigned_consumer(bootstrap, {(topic, p): 0 for p in range(4)}) as consumer:
        for message in take(consumer, 1000):
            by_key[message.key()].append(int(message.value()))
    assert len(by_key) == 13
    assert all(values == sorted(values) for values in by_key.values())
