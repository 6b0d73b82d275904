"""How the columns of a topic's table are called, and the unit of its times.

Loads nothing, unlike `table`, which has Arrow's types for them.
"""

from __future__ import annotations

from typing import Final

PARTITION: Final = "partition"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
PRODUCER_ID: Final = "producer_id"
PRODUCER_EPOCH: Final = "producer_epoch"
BASE_SEQUENCE: Final = "base_sequence"
ATTRIBUTES: Final = "attributes"

RAW: Final = (
    PARTITION,
    OFFSET,
    TIMESTAMP,
    KEY,
    VALUE,
    HEADERS,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    ATTRIBUTES,
)
"""The columns that every topic's table has, in their order."""

MICROSECONDS_PER_MS: Final = 1000
"""Kafka has times in milliseconds, tables in microseconds."""
