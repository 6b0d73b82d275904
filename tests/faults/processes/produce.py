"""A Produce request whose answer is read later, or never."""

from __future__ import annotations

import struct
import time

from tests.integration.harness.raw_batches import encode_batch
from tests.integration.harness.wire import PRODUCE, Connection, Produced

VERSION = 7
TIMEOUT_MS = 30_000
RETRIABLE = frozenset({3, 5, 6, 7, 19, 20, 56})
"""Codes after which every client sends again by itself: unknown topic, leader not available, not
leader, timed out, too few replicas (twice), storage error."""


class Batch:
    """Values under one producer's sequence, or under none; may be sent several times."""

    def __init__(self, values: list[bytes], producer: tuple[int, int, int] = (-1, -1, -1)) -> None:
        """`producer` is id, epoch and first sequence."""
        self.values = values
        producer_id, epoch, sequence = producer
        self.data = encode_batch(
            values,
            timestamp_ms=int(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=epoch,
            first_sequence=sequence,
        )


def send(connection: Connection, topic: str, batch: Batch, *, timeout_ms: int = TIMEOUT_MS) -> None:
    """Send a Produce of one batch to partition 0 and do not wait."""
    name = topic.encode()
    connection.send(
        PRODUCE,
        VERSION,
        struct.pack(">hhii", -1, -1, timeout_ms, 1)
        + struct.pack(">h", len(name))
        + name
        + struct.pack(">iii", 1, 0, len(batch.data))
        + batch.data,
    )


def receive(connection: Connection) -> Produced:
    """The answer to `send`."""
    reader = connection.receive()
    assert reader.one("i") == 1
    reader.string()
    assert reader.take("ii") == (1, 0)
    return Produced(*reader.take("hqqq"))


def produce(
    connection: Connection, topic: str, batch: Batch, *, timeout_ms: int = TIMEOUT_MS
) -> Produced:
    """Send and wait for the answer."""
    send(connection, topic, batch, timeout_ms=timeout_ms)
    return receive(connection)
