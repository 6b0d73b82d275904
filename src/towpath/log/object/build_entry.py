"""The index entry of a WAL chunk, as it is written before its offsets are known."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from towpath.log.object import entries
from towpath.log.object.wal_format import ChunkImage
from towpath.metadata.proto import index_pb2
from towpath.records.batch import BatchInfo


def build_entry(
    wal_id: uuid.UUID,
    path: str,
    created_at_ms: int,
    chunk: ChunkImage,
    accepted: Sequence[tuple[BatchInfo, int]],
) -> index_pb2.IndexEntry:
    """The entry of a chunk's accepted batches, with relative offsets. Each batch comes with the
    position of its row in the chunk."""
    rows = []
    delta = 0
    for batch, at in accepted:
        row = index_pb2.BatchRow(
            start_offset_delta=delta,
            last_offset_delta=delta + batch.record_count - 1,
            offset_in_chunk=chunk.rows[at].offset_in_chunk,
            length=chunk.rows[at].length,
            min_timestamp_ms=batch.min_timestamp_ms,
            max_timestamp_ms=batch.max_timestamp_ms,
        )
        if batch.producer_id >= 0:
            row.producer.id = batch.producer_id
            row.producer.epoch = batch.producer_epoch
            row.producer.first_sequence = batch.base_sequence
        rows.append(row)
        delta += batch.record_count
    return index_pb2.IndexEntry(
        version=entries.ENTRY_VERSION,
        file_type=index_pb2.WAL,
        record_count=delta,
        created_at_ms=created_at_ms,
        min_timestamp_ms=min(row.min_timestamp_ms for row in rows),
        max_timestamp_ms=max(row.max_timestamp_ms for row in rows),
        wal=index_pb2.WalLocation(
            wal_id=wal_id.bytes,
            path=path,
            chunk_offset=chunk.chunk_offset,
            chunk_length=chunk.chunk_length,
            batches=rows,
        ),
    )
