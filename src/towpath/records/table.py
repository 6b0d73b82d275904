"""The columns of a topic's table, as Arrow has them (the spec's section 5.3).

One row is one record. Field ids come from the loaded table, because catalogs number columns
themselves; a file without them could not be read by name alone for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from towpath.records.column_names import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    HEADERS,
    KEY,
    MICROSECONDS_PER_MS,
    OFFSET,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TIMESTAMP,
    VALUE,
)

__all__ = [
    "ATTRIBUTES", "BASE_SEQUENCE", "DEFAULT_FIELD_IDS", "FIELD_ID", "HEADERS", "HEADER_ELEMENT",
    "HEADER_KEY", "HEADER_VALUE", "KEY", "MICROSECONDS_PER_MS", "OFFSET", "PARTITION",
    "PRODUCER_EPOCH", "PRODUCER_ID", "TIMESTAMP", "TIMESTAMP_TYPE", "VALUE", "FieldIds",
    "arrow_schema",
]  # fmt: skip

HEADER_ELEMENT = "headers.element"
HEADER_KEY = "headers.element.key"
HEADER_VALUE = "headers.element.value"

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
FIELD_ID = b"PARQUET:field_id"

FieldIds = Mapping[str, int]
"""Field ids by dotted path: the names above."""

DEFAULT_FIELD_IDS: FieldIds = {
    PARTITION: 1,
    OFFSET: 2,
    TIMESTAMP: 3,
    KEY: 4,
    VALUE: 5,
    HEADERS: 6,
    PRODUCER_ID: 7,
    PRODUCER_EPOCH: 8,
    BASE_SEQUENCE: 9,
    ATTRIBUTES: 10,
    HEADER_ELEMENT: 11,
    HEADER_KEY: 12,
    HEADER_VALUE: 13,
}
"""What a table is created with; the catalog may give others."""


def arrow_schema(field_ids: FieldIds = DEFAULT_FIELD_IDS) -> pa.Schema:
    """The schema of a topic's Parquet files. Headers are an ordered list, never a map: Kafka allows
    the same key twice. A record without headers has an empty list."""

    def field(path: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
        name = path.rpartition(".")[2]
        return pa.field(name, kind, nullable, {FIELD_ID: str(field_ids[path]).encode()})

    header = pa.struct(
        [field(HEADER_KEY, pa.string()), field(HEADER_VALUE, pa.binary(), nullable=True)]
    )
    return pa.schema(
        [
            field(PARTITION, pa.int32()),
            field(OFFSET, pa.int64()),
            field(TIMESTAMP, TIMESTAMP_TYPE),
            field(KEY, pa.binary(), nullable=True),
            field(VALUE, pa.binary(), nullable=True),
            field(HEADERS, pa.list_(field(HEADER_ELEMENT, header))),
            field(PRODUCER_ID, pa.int64(), nullable=True),
            field(PRODUCER_EPOCH, pa.int32(), nullable=True),
            field(BASE_SEQUENCE, pa.int32(), nullable=True),
            field(ATTRIBUTES, pa.int32()),
        ]
    )
