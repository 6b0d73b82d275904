"""How old the records at given offsets are: the first one of each partition is read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from towpath.cli.client import consumer

if TYPE_CHECKING:
    from confluent_kafka import Message

    from towpath.cli.offsets import TopicPartition

TIMEOUT_SECONDS = 15.0
"""What was not read by then is not known."""
POLL_SECONDS = 0.2
FETCH_MAX_BYTES = 16_384
"""A broker sends at least one batch, however large."""


def timestamps_ms(
    bootstrap: str, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after each position, where there is one in time."""
    from confluent_kafka import TopicPartition as KafkaPartition

    if not positions:
        return {}
    limits = {
        # A position may be below the log's start.
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "fetch.message.max.bytes": FETCH_MAX_BYTES,
        "queued.min.messages": 1,
    }
    reader = consumer(bootstrap, limits)
    found: dict[TopicPartition, int] = {}
    waiting = set(positions)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        reader.assign(
            [KafkaPartition(topic, number, at) for (topic, number), at in positions.items()]
        )
        while waiting and time.monotonic() < deadline:
            message = reader.poll(POLL_SECONDS)
            if message is None:
                continue
            key = (message.topic() or "", message.partition() or 0)
            if key in waiting and _settles(message, key, found):
                waiting.discard(key)
                reader.pause([KafkaPartition(*key)])
    finally:
        reader.close()
    return found


def _settles(message: Message, key: TopicPartition, found: dict[TopicPartition, int]) -> bool:
    """Whether the partition needs no more reading; notes the record's timestamp if it has one."""
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError

    error = message.error()
    if error is not None:
        return error.code() == KafkaError._PARTITION_EOF or not error.retriable()
    kind, timestamp_ms = message.timestamp()
    if kind != TIMESTAMP_NOT_AVAILABLE and timestamp_ms >= 0:
        found[key] = timestamp_ms
    return True
