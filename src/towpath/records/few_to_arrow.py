"""A few record batches as Arrow columns, decoded in Python: right away, without loading numba (or
pandas).

The same rows as `to_arrow.decode_batches` gives, which decodes a hundred times as fast once its
kernel is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from towpath.errors import BatchError, CorruptBatch
from towpath.records import table
from towpath.records.batch import BatchHeader
from towpath.records.columns import column_of
from towpath.records.to_arrow import OpenBatch
from towpath.records.walk import Record, records_of


def decode_few(batches: Sequence[OpenBatch], partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """The records of the batches, in their order. Raises CorruptBatch."""
    found: list[tuple[OpenBatch, Record]] = []
    for batch in batches:
        try:
            payload = bytes(batch.payload)
            found += [(batch, record) for record in records_of(batch.header, payload)]
        except BatchError as error:
            raise CorruptBatch(f"the batch at offset {batch.base_offset}: {error}") from error
    columns: dict[str, Sequence[Any]] = {
        table.PARTITION: [partition] * len(found),
        table.OFFSET: [batch.base_offset + record.offset_delta for batch, record in found],
        table.TIMESTAMP: [record.timestamp_ms * table.MICROSECONDS_PER_MS for _, record in found],
        table.KEY: [record.key for _, record in found],
        table.VALUE: [record.value for _, record in found],
        table.HEADERS: [record.headers for _, record in found],
        table.PRODUCER_ID: [_known(batch.header, batch.header.producer_id) for batch, _ in found],
        table.PRODUCER_EPOCH: [
            _known(batch.header, batch.header.producer_epoch) for batch, _ in found
        ],
        table.BASE_SEQUENCE: [
            _known(batch.header, batch.header.base_sequence) for batch, _ in found
        ],
        table.ATTRIBUTES: [batch.header.attributes for batch, _ in found],
    }
    arrays = [column_of(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _known(header: BatchHeader, number: int) -> int | None:
    """A field of an idempotent producer's batch; null in the others."""
    return number if header.producer_id >= 0 else None
