"""Producing and consuming with confluent-kafka: the way tests of other things move records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

DELIVERY_TIMEOUT_S = 60.0
CONSUME_TIMEOUT_S = 30.0

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Sent:
    """A record as a producer hands it over; equal to what a consumer must get back."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    timestamp_ms: int | None = None
    partition: int = 0


def varied_records(
    count: int, *, partition: int = 0, tag: str = "r", null_headers: bool = True
) -> list[Sent]:
    """Records with every shape of key, value and header, from empty to some hundreds of bytes;
    never without both key and value, which some clients refuse to send."""
    first_ms = 1_700_000_000_000
    null = None if null_headers else b"null"
    return [
        Sent(
            value=None if i % 21 in (10, 17) else f"{tag}-{i}-".encode() * (i % 50),
            key=None if i % 3 == 0 else f"key-{i % 10}".encode(),
            headers=[("h", b"1"), ("h", null), ("empty", b""), ("é", b"\x00\xff")][: i % 5],
            timestamp_ms=first_ms + 10 * i,
            partition=partition,
        )
        for i in range(count)
    ]


def producer(bootstrap: str, **settings: Any) -> Any:
    """A confluent producer; settings are librdkafka's with `_` for `.`."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **named})


def produce_all(client: Any, topic: str, records: Iterable[Sent]) -> list[int]:
    """Send records and wait; the offset each was acknowledged with. Any failure raises."""
    offsets: dict[int, int] = {}
    failures: list[Any] = []

    def settled(index: int, error: Any, message: Any) -> None:
        if error is not None:
            failures.append((index, error))
        else:
            offsets[index] = message.offset()

    for index, record in enumerate(records):
        while True:
            try:
                client.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers or None,
                    partition=record.partition,
                    timestamp=record.timestamp_ms or 0,
                    on_delivery=lambda error, message, i=index: settled(i, error, message),
                )
                break
            except BufferError:
                client.poll(0.1)
        client.poll(0)
    left = client.flush(DELIVERY_TIMEOUT_S)
    assert not failures, failures[:3]
    assert left == 0, f"{left} records were not delivered"
    return [offsets[index] for index in sorted(offsets)]


@contextmanager
def assigned_consumer(
    bootstrap: str, positions: dict[tuple[str, int], int], **settings: Any
) -> Iterator[Any]:
    """A consumer assigned to partitions at offsets. It joins no group and commits nothing: the
    group id is only there because the library asks for one."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            **named,
        }
    )
    try:
        client.assign([TopicPartition(t, p, offset) for (t, p), offset in positions.items()])
        yield client
    finally:
        client.close()


def take(client: Any, count: int, timeout_s: float = CONSUME_TIMEOUT_S) -> list[Any]:
    """The next `count` messages of a consumer. Errors raise; too few in time is a failure."""
    got: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(got) < count:
        left_s = deadline - time.monotonic()
        assert left_s > 0, f"{len(got)} of {count} messages within {timeout_s} s"
        for message in client.consume(count - len(got), min(left_s, 1.0)):
            error = message.error()
            assert error is None, error
            got.append(message)
    return got


def consume(
    bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0, **settings: Any
) -> list[Any]:
    """`count` messages of one partition from an offset on."""
    with assigned_consumer(bootstrap, {(topic, partition): offset}, **settings) as client:
        return take(client, count)


def as_sent(message: Any) -> Sent:
    """What must equal the record that was sent with a CreateTime timestamp."""
    return Sent(
        value=message.value(),
        key=message.key(),
        headers=message.headers() or [],
        timestamp_ms=message.timestamp()[1],
        partition=message.partition(),
    )
