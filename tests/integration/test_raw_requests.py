"""What no well-behaved client sends: requests built by hand, and the exact error codes back."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.conftest import Broker
from tests.integration.harness.admin import create_topic, unique_name
from tests.integration.harness.raw_batches import decode_batches, encode_batch
from tests.integration.harness.waiting import wait_until
from tests.integration.harness.wire import Connection

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_REQUIRED_ACKS = 21
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_RECORD = 87


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    """A bare connection to the broker."""
    with Connection("127.0.0.1", broker.kafka_port) as opened:
        yield opened


def ready_topic(connection: Connection, bootstrap: str, **options: Any) -> str:
    """A new topic. Apache Kafka shows one in its metadata a moment before it serves it: clients
    retry then, these tests do not."""
    topic = create_topic(bootstrap, **options)
    for partition in range(options.get("partitions", 1)):
        wait_until(
            functools.partial(_serves, connection, topic, partition), f"{topic}-{partition} served"
        )
    return topic


def _serves(connection: Connection, topic: str, partition: int) -> bool:
    return connection.list_offset(topic, partition, -1)[0] == 0


def now_ms() -> int:
    """The time of a record made now."""
    return int(time.time() * 1000)


def test_produce_and_fetch(bootstrap: str, connection: Connection) -> None:
    topic = ready_topic(connection, bootstrap, partitions=2)
    for first in (0, 3, 6):
        values = [b"v%d" % i for i in range(first, first + 3)]
        done = connection.produce(topic, 1, encode_batch(values, timestamp_ms=now_ms()))
        assert (done.error, done.base_offset, done.log_start_offset) == (0, first, 0)
    fetched = connection.fetch(topic, 1, 0)
    assert (fetched.error, fetched.high_watermark) == (0, 9)
    assert list(decode_batches(fetched.records)) == [(i, b"v%d" % i) for i in range(9)]
    # From the middle of a batch the broker sends the whole batch.
    middle = list(decode_batches(connection.fetch(topic, 1, 4).records))
    assert [offset for offset, _ in middle] == [3, 4, 5, 6, 7, 8]
    assert connection.fetch(topic, 0, 0).records == b""


def test_fetch_at_and_beyond_the_end(bootstrap: str, connection: Connection) -> None:
    topic = ready_topic(connection, bootstrap)
    connection.produce(topic, 0, encode_batch([b"v"], timestamp_ms=now_ms()))
    at_end = connection.fetch(topic, 0, 1)
    assert (at_end.error, at_end.records) == (0, b"")
    assert connection.fetch(topic, 0, 2).error == OFFSET_OUT_OF_RANGE
    assert connection.fetch(topic, 0, -1).error == OFFSET_OUT_OF_RANGE
    assert connection.fetch(topic, 3, 0).error == UNKNOWN_TOPIC_OR_PARTITION


def test_unknown_topic_and_partition(bootstrap: str, connection: Connection) -> None:
    topic = ready_topic(connection, bootstrap)
    batch = encode_batch([b"v"], timestamp_ms=now_ms())
    missing = connection.produce(unique_name("absent"), 0, batch)
    assert missing.error == UNKNOWN_TOPIC_OR_PARTITION
    assert connection.produce(topic, 1, batch).error == UNKNOWN_TOPIC_OR_PARTITION


def test_bad_batches_store_nothing(bootstrap: str, connection: Connection) -> None:
    topic = ready_topic(connection, bootstrap, config={"max.message.bytes": "1000"})
    good = encode_batch([b"v"], timestamp_ms=now_ms())
    broken = good[:-2] + bytes([good[-2] ^ 1]) + good[-1:]
    assert connection.produce(topic, 0, broken).error == CORRUPT_MESSAGE
    large = encode_batch([b"v" * 2000], timestamp_ms=now_ms())
    assert connection.produce(topic, 0, large).error == MESSAGE_TOO_LARGE
    future = encode_batch([b"v"], timestamp_ms=now_ms() + 7_200_000)
    assert connection.produce(topic, 0, future).error == INVALID_TIMESTAMP
    assert connection.produce(topic, 0, good + good).error == INVALID_RECORD
    assert connection.produce(topic, 0, good, acks=2).error == INVALID_REQUIRED_ACKS
    assert connection.list_offset(topic, 0, -1)[2] == 0
    assert connection.produce(topic, 0, good).base_offset == 0


def test_a_repeated_batch_of_an_idempotent_producer_is_stored_once(
    bootstrap: str, connection: Connection
) -> None:
    topic = ready_topic(connection, bootstrap)
    producer_id, epoch = connection.init_producer_id()

    def batch(first_sequence: int, count: int = 2, epoch: int = epoch) -> bytes:
        return encode_batch(
            [b"%d" % (first_sequence + i) for i in range(count)],
            timestamp_ms=now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            first_sequence=first_sequence,
        )

    for first in range(0, 12, 2):
        assert connection.produce(topic, 0, batch(first)).base_offset == first
    # Any of the last five comes again with the offset it got the first time.
    for first in (10, 2, 6):
        again = connection.produce(topic, 0, batch(first))
        assert (again.error, again.base_offset) == (0, first)
    assert connection.produce(topic, 0, batch(16)).error == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert connection.produce(topic, 0, batch(12)).base_offset == 12
    # A newer epoch starts at sequence 0 and fences the older one.
    assert connection.produce(topic, 0, batch(0, epoch=epoch + 1)).base_offset == 14
    assert connection.produce(topic, 0, batch(14)).error == INVALID_PRODUCER_EPOCH
    assert connection.list_offset(topic, 0, -1)[2] == 16


def test_producer_ids_are_never_given_twice(broker: Broker) -> None:
    given = set()
    for _ in range(20):
        with Connection("127.0.0.1", broker.kafka_port) as connection:
            producer_id, epoch = connection.init_producer_id()
            assert epoch == 0
            given.add(producer_id)
    assert len(given) == 20


def test_offsets_by_timestamp(bootstrap: str, connection: Connection) -> None:
    topic = ready_topic(connection, bootstrap)
    first_ms = 1_650_000_000_000
    for i in range(3):
        connection.produce(topic, 0, encode_batch([b"a", b"b"], timestamp_ms=first_ms + 100 * i))
    assert connection.list_offset(topic, 0, first_ms + 50) == (0, first_ms + 100, 2)
    assert connection.list_offset(topic, 0, first_ms + 201) == (0, -1, -1)
    assert connection.list_offset(topic, 0, -2) == (0, -1, 0)
    assert connection.list_offset(topic, 0, -1) == (0, -1, 6)
