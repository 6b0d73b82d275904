"""A few record batches as columns of Python's values, decoded in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from towpath.errors import BatchError, CorruptBatch
from towpath.records import column_names as names
from towpath.records.batch import BatchHeader
from towpath.records.column_names import MICROSECONDS_PER_MS
from towpath.records.open_batch import OpenBatch
from towpath.records.walk import Record, records_of


def few_columns(batches: Iterable[OpenBatch], partition: int) -> dict[str, list[Any]]:
    """The records of the batches, in their order, as the columns of `column_names`: times in
    microseconds, headers as pairs. Raises CorruptBatch."""
    found: list[tuple[OpenBatch, Record]] = []
    for batch in batches:
        try:
            payload = bytes(batch.payload)
            found += [(batch, record) for record in records_of(batch.header, payload)]
        except BatchError as error:
            raise CorruptBatch(f"the batch at offset {batch.base_offset}: {error}") from error
    return {
        names.PARTITION: [partition] * len(found),
        names.OFFSET: [batch.base_offset + record.offset_delta for batch, record in found],
        names.TIMESTAMP: [record.timestamp_ms * MICROSECONDS_PER_MS for _, record in found],
        names.KEY: [record.key for _, record in found],
        names.VALUE: [record.value for _, record in found],
        names.HEADERS: [record.headers for _, record in found],
        names.PRODUCER_ID: [_known(batch.header, batch.header.producer_id) for batch, _ in found],
        names.PRODUCER_EPOCH: [
            _known(batch.header, batch.header.producer_epoch) for batch, _ in found
        ],
        names.BASE_SEQUENCE: [
            _known(batch.header, batch.header.base_sequence) for batch, _ in found
        ],
        names.ATTRIBUTES: [batch.header.attributes for batch, _ in found],
    }


def _known(header: BatchHeader, number: int) -> int | None:
    """A field of an idempotent producer's batch; null in the others."""
    return number if header.producer_id >= 0 else None
