"""kafka-python: records, offsets and administration through a client written in Python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, end_offset, unique_name
from tests.integration.harness.clients import Sent, varied_records
from tests.integration.harness.kafka_python import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetSpec,
    TopicPartition,
    kafka_errors,
)
from tests.integration.harness.waiting import wait_until

# Snappy needs a library that kafka-python alone would use; other clients test it.
COMPRESSIONS = (None, "gzip", "lz4", "zstd")
FIRST_MS = 1_650_000_000_000
TEN_MB = 10_000_000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    """A KafkaAdminClient."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def produce(bootstrap: str, topic: str, records: list[Sent], **settings: Any) -> list[int]:
    """Send records and wait; the offset each was acknowledged with."""
    client = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)
    try:
        futures = [
            client.send(
                topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        return [future.get(timeout=30).offset for future in futures]
    finally:
        client.close()


def consume(
    bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0, **settings: Any
) -> list[Any]:
    """`count` records of one partition from an offset on, without a group."""
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings)
    try:
        where = TopicPartition(topic, partition)
        client.assign([where])
        client.seek(where, offset)
        got: list[Any] = []
        deadline = time.monotonic() + 30
        while len(got) < count:
            assert time.monotonic() < deadline, f"{len(got)} of {count}"
            got += client.poll(timeout_ms=500, max_records=count - len(got)).get(where, [])
        return got
    finally:
        client.close()


def as_sent(record: Any) -> Sent:
    """What must equal the record that was sent."""
    headers = [(name, value) for name, value in record.headers]
    return Sent(record.value, record.key, headers, record.timestamp, record.partition)


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_sent(
    bootstrap: str, compression: str | None, idempotent: bool
) -> None:
    topic = create_topic(bootstrap)
    # This client sends no header without a value.
    records = varied_records(300, null_headers=False)
    offsets = produce(
        bootstrap, topic, records, compression_type=compression, enable_idempotence=idempotent
    )
    assert offsets == list(range(300))
    got = consume(bootstrap, topic, 300)
    assert [as_sent(record) for record in got] == records
    assert [record.offset for record in got] == list(range(300))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_level_stores(bootstrap: str, acks: int | str) -> None:
    topic = create_topic(bootstrap)
    records = [Sent(b"%d" % i) for i in range(50)]
    produce(bootstrap, topic, records, acks=acks, enable_idempotence=False)
    assert [record.value for record in consume(bootstrap, topic, 50)] == [r.value for r in records]
    assert end_offset(bootstrap, topic) == 50


def test_ten_megabyte_value(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": str(TEN_MB + 10_000)})
    value = bytes(range(256)) * (TEN_MB // 256)
    produce(bootstrap, topic, [Sent(value), Sent(b"")], max_request_size=TEN_MB + 10_000)
    assert [record.value for record in consume(bootstrap, topic, 2)] == [value, b""]


def test_oversized_message_is_refused(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"max.message.bytes": "1000"})
    with pytest.raises(kafka_errors.MessageSizeTooLargeError):
        produce(bootstrap, topic, [Sent(b"x" * 2000)], enable_idempotence=False)
    assert end_offset(bootstrap, topic) == 0


def test_log_append_time(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    produce(bootstrap, topic, [Sent(b"v", timestamp_ms=FIRST_MS)])
    (record,) = consume(bootstrap, topic, 1)
    assert record.timestamp_type == 1
    assert before_ms <= record.timestamp <= int(time.time() * 1000)


def test_fetch_from_the_middle_of_a_batch(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    produce(bootstrap, topic, [Sent(b"%d" % i) for i in range(100)], batch_size=100_000)
    for offset in (1, 42, 99):
        got = consume(bootstrap, topic, 100 - offset, offset=offset)
        assert [record.offset for record in got] == list(range(offset, 100))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation_levels(bootstrap: str, isolation: str) -> None:
    topic = create_topic(bootstrap)
    produce(bootstrap, topic, [Sent(b"%d" % i) for i in range(10)])
    assert len(consume(bootstrap, topic, 10, isolation_level=isolation)) == 10


def test_offsets_by_position_and_time(bootstrap: str, admin: Any) -> None:
    topic = create_topic(bootstrap)
    where = TopicPartition(topic, 0)
    produce(bootstrap, topic, [Sent(b"v", timestamp_ms=FIRST_MS + 10 * i) for i in range(20)])
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        assert client.beginning_offsets([where]) == {where: 0}
        assert client.end_offsets([where]) == {where: 20}
        found = client.offsets_for_times({where: FIRST_MS + 55})[where]
        assert (found.offset, found.timestamp) == (6, FIRST_MS + 60)
        assert client.offsets_for_times({where: FIRST_MS + 5000})[where] is None
        assert client.partitions_for_topic(topic) == {0}
    finally:
        client.close()
    newest = admin.list_partition_offsets({where: OffsetSpec.MAX_TIMESTAMP})[where]
    assert (newest.offset, newest.timestamp) == (19, FIRST_MS + 190)


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 10)])
def test_an_offset_out_of_range_is_reset(bootstrap: str, reset: str, first: int) -> None:
    topic = create_topic(bootstrap)
    where = TopicPartition(topic, 0)
    produce(bootstrap, topic, [Sent(b"v")] * 10)
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset=reset)
    try:
        client.assign([where])
        client.seek(where, 500)

        def moved() -> bool:
            client.poll(timeout_ms=200, max_records=1)
            return bool(client.position(where) < 500)

        wait_until(moved, "the position was reset")
        assert client.position(where) in (first, first + 1)
    finally:
        client.close()


def test_topics_through_the_admin(bootstrap: str, admin: Any) -> None:
    topic = unique_name()
    admin.create_topics({topic: {"num_partitions": 2, "configs": {"retention.ms": "9999"}}})
    wait_until(lambda: topic in admin.list_topics(), "created")
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([topic])
    admin.create_partitions({topic: 3})
    wait_until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3, "three")
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_partitions({topic: 1})
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics(), "deleted")
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_bad_topics_are_refused(admin: Any) -> None:
    with pytest.raises(kafka_errors.InvalidTopicError):
        admin.create_topics(["bad name"])
    with pytest.raises(kafka_errors.InvalidConfigurationError):
        admin.create_topics({unique_name(): {"configs": {"no.such.thing": "1"}}})
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_topics({unique_name(): {"num_partitions": 0}})


def test_validate_only(admin: Any) -> None:
    topic = unique_name()
    admin.create_topics([topic], validate_only=True)
    assert topic not in admin.list_topics()


def test_configs_through_the_admin(bootstrap: str, admin: Any) -> None:
    topic = create_topic(bootstrap)

    def value() -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = admin.describe_configs([resource], config_filter="all")
        return str(found["topic"][topic]["retention.ms"]["value"])

    assert value() == "604800000"
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "555"})])
    wait_until(lambda: value() == "555", "altered")
    undo = {"retention.ms": ("DELETE", None)}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, undo)])
    wait_until(lambda: value() == "604800000", "reset")


def test_delete_records(bootstrap: str, admin: Any) -> None:
    topic = create_topic(bootstrap)
    where = TopicPartition(topic, 0)
    produce(bootstrap, topic, [Sent(b"%d" % i) for i in range(10)])
    admin.delete_records({where: 4})
    assert consume(bootstrap, topic, 6, offset=4)[0].value == b"4"
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    assert client.beginning_offsets([where]) == {where: 4}
    client.close()
    with pytest.raises(kafka_errors.KafkaError):
        admin.delete_records({where: 11})


def test_describe_cluster(broker: Broker, admin: Any) -> None:
    cluster = admin.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == [broker.kafka_port]
    assert cluster["cluster_id"]


def test_a_transactional_producer_is_refused_clearly(broker: Broker) -> None:
    if broker.is_kafka:
        pytest.skip("Apache Kafka has transactions")
    client = KafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=unique_name("tx"), max_block_ms=10_000
    )
    with pytest.raises(kafka_errors.KafkaError) as refusal:
        client.init_transactions()
    assert not isinstance(refusal.value, kafka_errors.KafkaTimeoutError)
    client.close(timeout=1)
