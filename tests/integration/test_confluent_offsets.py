"""Offsets by position and by time, through confluent-kafka's AdminClient and Consumer."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition
from tests.integration.harness.admin import (
    REQUEST_TIMEOUT_S,
    admin_client,
    create_topic,
    offset_at,
    unique_name,
)
from tests.integration.harness.clients import (
    COMPRESSIONS,
    Sent,
    assigned_consumer,
    produce_all,
    producer,
    take,
)
from tests.integration.harness.confluent_admin import OffsetSpec

FIRST_MS = 1_650_000_000_000


@pytest.fixture(params=["none", "zstd"])
def timed_topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """100 records 10 ms apart from FIRST_MS on, in batches of 25."""
    topic = create_topic(bootstrap)
    client = producer(
        bootstrap, compression_type=request.param, batch_num_messages=25, linger_ms=300
    )
    records = [Sent(b"%d" % i, timestamp_ms=FIRST_MS + 10 * i) for i in range(100)]
    produce_all(client, topic, records)
    return topic


def test_earliest_latest_and_max_timestamp(bootstrap: str, timed_topic: str) -> None:
    assert offset_at(bootstrap, timed_topic, OffsetSpec.earliest()) == 0
    assert offset_at(bootstrap, timed_topic, OffsetSpec.latest()) == 100
    assert offset_at(bootstrap, timed_topic, OffsetSpec.max_timestamp()) == 99


@pytest.mark.parametrize(
    ("after_ms", "offset"),
    [(-1000, 0), (0, 0), (1, 1), (10, 1), (245, 25), (250, 25), (985, 99), (990, 99), (991, -1)],
)
def test_first_offset_at_or_after_a_time(
    bootstrap: str, timed_topic: str, after_ms: int, offset: int
) -> None:
    spec = OffsetSpec.for_timestamp(FIRST_MS + after_ms)
    assert offset_at(bootstrap, timed_topic, spec) == offset


def test_consumer_offsets_for_times(bootstrap: str, timed_topic: str) -> None:
    with assigned_consumer(bootstrap, {(timed_topic, 0): 0}) as consumer:
        asked = [TopicPartition(timed_topic, 0, FIRST_MS + 505)]
        assert consumer.offsets_for_times(asked, timeout=20)[0].offset == 51
        late = [TopicPartition(timed_topic, 0, FIRST_MS + 5000)]
        assert consumer.offsets_for_times(late, timeout=20)[0].offset == OFFSET_END
        consumer.seek(TopicPartition(timed_topic, 0, 51))
        assert take(consumer, 1)[0].value() == b"51"


def test_times_out_of_order_find_the_first_record_that_is_late_enough(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    stamps = [FIRST_MS + ms for ms in (50, 10, 90, 20, 90, 60)]
    for stamp in stamps:
        produce_all(producer(bootstrap), topic, [Sent(b"v", timestamp_ms=stamp)])
    found = {
        ms: offset_at(bootstrap, topic, OffsetSpec.for_timestamp(FIRST_MS + ms))
        for ms in (0, 50, 51, 90, 91)
    }
    assert found == {0: 0, 50: 0, 51: 2, 90: 2, 91: -1}
    # Of two records with the greatest timestamp, the first.
    assert offset_at(bootstrap, topic, OffsetSpec.max_timestamp()) == 2


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_times_out_of_order_within_a_batch(bootstrap: str, compression: str) -> None:
    topic = create_topic(bootstrap)
    client = producer(bootstrap, compression_type=compression, linger_ms=300)
    records = [Sent(b"v", timestamp_ms=FIRST_MS + ms) for ms in (50, 10, 90, 20, 90, 60)]
    produce_all(client, topic, records)
    assert offset_at(bootstrap, topic, OffsetSpec.for_timestamp(FIRST_MS + 51)) == 2
    assert offset_at(bootstrap, topic, OffsetSpec.max_timestamp()) == 2


def test_an_empty_partition(bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    found: list[int] = [
        offset_at(bootstrap, topic, spec)
        for spec in (
            OffsetSpec.earliest(),
            OffsetSpec.latest(),
            OffsetSpec.max_timestamp(),
            OffsetSpec.for_timestamp(1),
        )
    ]
    assert found == [0, 0, -1, -1]


def test_log_append_time_is_searched_too(bootstrap: str) -> None:
    topic = create_topic(bootstrap, config={"message.timestamp.type": "LogAppendTime"})
    produce_all(producer(bootstrap), topic, [Sent(b"v", timestamp_ms=FIRST_MS)] * 3)
    assert offset_at(bootstrap, topic, OffsetSpec.for_timestamp(FIRST_MS)) == 0
    where = TopicPartition(topic, 0)
    future = admin_client(bootstrap).list_offsets({where: OffsetSpec.max_timestamp()})[where]
    found = future.result(REQUEST_TIMEOUT_S)
    assert found.timestamp > FIRST_MS
    # Every record of a batch has the same time: the answer is one of them.
    assert 0 <= found.offset <= 2


def test_beginning_and_end_as_positions(bootstrap: str, timed_topic: str) -> None:
    with assigned_consumer(bootstrap, {(timed_topic, 0): OFFSET_BEGINNING}) as consumer:
        assert take(consumer, 1)[0].offset() == 0
    with assigned_consumer(bootstrap, {(timed_topic, 0): OFFSET_END}) as consumer:
        got: list[Any] = []
        while not got:
            offsets = produce_all(producer(bootstrap), timed_topic, [Sent(b"new")])
            assert offsets[0] < 200, "the consumer never got there"
            got = consumer.consume(1, 0.5)
        assert got[0].value() == b"new"
        assert got[0].offset() >= 100


def test_unknown_topic_and_partition(bootstrap: str) -> None:
    with pytest.raises(KafkaException):
        offset_at(bootstrap, unique_name("absent"), OffsetSpec.latest())
    with pytest.raises(KafkaException):
        offset_at(bootstrap, create_topic(bootstrap), OffsetSpec.latest(), partition=9)


def test_many_partitions_in_one_call(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=10)
    client = producer(bootstrap)
    for partition in range(10):
        produce_all(client, topic, [Sent(b"v", partition=partition)] * partition)
    wanted = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(10)}
    futures = admin_client(bootstrap).list_offsets(wanted)
    found = {where.partition: f.result(REQUEST_TIMEOUT_S).offset for where, f in futures.items()}
    assert found == {partition: partition for partition in range(10)}
