"""Fills a topic: every system gets exactly the same records."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.errors import MeasurementFailed
from bench.shared.payload import values
from bench.shared.shapes import Shape
from bench.systems import System

PARTITIONS = 4
POLL_EVERY_RECORDS = 2_000
FLUSH_TIMEOUT_S = 120
QUEUE_RECORDS_MAX = 200_000
QUEUE_WAIT_S = 0.01
SETTINGS = {
    "acks": "all",
    "batch.size": 1_000_000,
    "linger.ms": 50,
    "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
    "queue.buffering.max.kbytes": 65_536,
}


@dataclass(frozen=True)
class Filled:
    """What a topic holds."""

    topic: str
    records: int
    size_bytes: int
    """Keys and values, uncompressed."""


def fill(system: System, topic: str, shape: Shape, size_bytes: int) -> Filled:
    """Create the topic and send it `size_bytes` of records; returns when all are acknowledged.
    MeasurementFailed if one is not."""
    system.client.run("create", topic=topic, partitions=PARTITIONS)
    return fill_more(system, Filled(topic, 0, 0), shape, size_bytes)


def fill_more(system: System, filled: Filled, shape: Shape, size_bytes: int) -> Filled:
    """Go on with a topic where it was left; what it holds then."""
    topic, records = filled.topic, max(PARTITIONS, size_bytes // shape.record_bytes)
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            **SETTINGS,
            "bootstrap.servers": bootstrap_of(system),
            "compression.type": shape.compression,
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    _send(producer, topic, shape, range(filled.records, filled.records + records))
    left = producer.flush(FLUSH_TIMEOUT_S)
    if failed or left:
        reason = failed[0].str() if failed else f"{left} records without an answer"
        raise MeasurementFailed(f"{system.name} was not filled: {reason}")
    total = filled.records + records
    return Filled(topic, total, total * shape.record_bytes)


def bootstrap_of(system: System) -> str:
    """Where a system's clients begin."""
    return f"127.0.0.1:{system.process.ports[0]}"


def _send(producer: Producer, topic: str, shape: Shape, numbers: range) -> None:
    texts = values(shape.record_bytes)
    try:
        for number in numbers:
            value = texts[number % len(texts)]
            while True:
                try:
                    producer.produce(topic, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(QUEUE_WAIT_S)
            if number % POLL_EVERY_RECORDS == 0:
                producer.poll(0)
    except KafkaException as error:
        raise MeasurementFailed(f"produce: {error}") from error
