"""The record batches of WAL parts, read and opened, whatever is made of them then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from towpath.lakehouse.jobs.read_ahead import read_in_order
from towpath.lakehouse.jobs.wal_ranges import ranges
from towpath.objects.worker import WorkerObjects
from towpath.reading.parts import WalPart
from towpath.records.open_batch import OpenBatch, open_batch

FEW_BYTES = 1 << 20
"""Stored bytes that are decoded sooner in Python than what decodes faster is loaded."""


def open_batches(objects: WorkerObjects, parts: Sequence[WalPart]) -> Iterator[OpenBatch]:
    """The batches of parts that follow each other. Raises ObjectNotFound if what was planned is
    gone since, CorruptBatch if it is damaged."""
    for span, content in read_in_order(objects, ranges([part.chunk for part in parts])):
        data = memoryview(content)
        for base_offset, position, length in span.batches:
            at = position - span.position
            yield open_batch(data[at : at + length], base_offset)
