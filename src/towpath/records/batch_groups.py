"""Open batches in groups, each of which is decoded by itself, without holding a whole group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from towpath.records.open_batch import OpenBatch

BEYOND_BYTES: Final = 1 << 20
"""By how much a group may be larger than asked, unless a topic has batches above Kafka's default
limit."""


def grouped(
    batches: Iterable[OpenBatch], group_bytes: int, row_bytes: int = 0
) -> Iterator[Iterator[OpenBatch]]:
    """Groups of about as many bytes of records, each record counted with `row_bytes` more. Take
    everything of a group before the next one, as with `itertools.groupby`."""
    source = iter(batches)
    for first in source:
        yield _group(chain([first], source), group_bytes, row_bytes)


def _group(batches: Iterable[OpenBatch], group_bytes: int, row_bytes: int) -> Iterator[OpenBatch]:
    size_bytes = 0
    for batch in batches:
        yield batch
        size_bytes += len(batch.payload) + row_bytes * batch.header.record_count
        if size_bytes >= group_bytes:
            return
