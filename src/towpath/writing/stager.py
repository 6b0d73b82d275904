"""A worker's part of a write: rows in, durable WAL objects out, with bounded memory.

Nothing that is staged can be seen until the driver commits it. A worker that fails takes back what
it has put, as far as it can; the orphan collector takes the rest.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from towpath.log.object.build_entry import build_entry
from towpath.log.object.wal_format import SUFFIX, ChunkImage, encode_wal
from towpath.metadata.keys import wal
from towpath.objects.store import ObjectExists, ObjectStoreError
from towpath.objects.worker import RemovableObjects
from towpath.records.batch import BatchInfo
from towpath.runtime import Runtime
from towpath.writing.batches import make_batches
from towpath.writing.errors import WriteFailed, WriteRefused
from towpath.writing.partitioner import Partitioner
from towpath.writing.rows import to_rows
from towpath.writing.staged import Staged, StagedChunk, StagedObject
from towpath.writing.target import Target

OBJECT_ROWS_BYTES = 32 << 20
"""Rows that are held before they become an object. A worker needs a few times as much memory."""
DRAWS = 8
"""How often a walId is drawn; a second time is rare (32 bits), a third is a broken store."""


class Stager:
    """One task's objects. Call `add` for all rows, then `finish`; or `discard`."""

    def __init__(
        self,
        target: Target,
        objects: RemovableObjects,
        runtime: Runtime,
        *,
        object_rows_bytes: int = OBJECT_ROWS_BYTES,
    ) -> None:
        self._target = target
        self._objects = objects
        self._runtime = runtime
        self._object_rows_bytes = object_rows_bytes
        first = runtime.random.randrange(target.partitions)
        self._partitioner = Partitioner(target.partitions, first)
        self._rows: list[pa.RecordBatch] = []
        self._partitions: list[NDArray[np.int32]] = []
        self._held_bytes = 0
        self._staged: list[StagedObject] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in. Raises WriteRefused for rows that the topic cannot have, WriteFailed if the
        object store fails; then call `discard`."""
        for piece in self._pieces(batch):
            rows = to_rows(piece, self._target, self._runtime.clock.now_ms())
            self._rows.append(rows)
            self._partitions.append(self._partitioner.assign(rows))
            self._held_bytes += rows.nbytes
            if self._held_bytes >= self._object_rows_bytes:
                self._flush()

    def finish(self) -> Staged:
        """Put what is left; everything that this task has staged."""
        if self._rows:
            self._flush()
        target = self._target
        return Staged(
            target.topic, target.topic_number, target.domain, target.block, tuple(self._staged)
        )

    def discard(self) -> None:
        """Take back what was put, as far as that is possible."""
        for staged in self._staged:
            with contextlib.suppress(ObjectStoreError):
                self._objects.delete(staged.path)
        self._staged.clear()

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows in parts that are not much larger than what is held."""
        if not batch.num_rows:
            return
        count = max(1, min(batch.num_rows, batch.nbytes // self._object_rows_bytes))
        bounds = np.linspace(0, batch.num_rows, count + 1).astype(int).tolist()
        for start, end in pairwise(bounds):
            yield batch.slice(start, end - start)

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._rows)
        partitions = np.concatenate(self._partitions)
        self._rows, self._partitions, self._held_bytes = [], [], 0
        chunks = [
            (self._target.stream(partition), make_batches(part, self._target))
            for partition, part in _by_partition(rows, partitions)
        ]
        self._staged.append(self._put(chunks))

    def _put(self, chunks: list[tuple[int, list[BatchInfo]]]) -> StagedObject:
        target = self._target
        for _ in range(DRAWS):
            bits = self._runtime.random.getrandbits(32)
            wal_id = wal.drawn_wal_id(target.block.block_id, bits)
            created_at_ms = self._runtime.clock.now_ms()
            image = encode_wal(wal_id, target.domain, created_at_ms, chunks)
            path = f"{target.block.path_prefix}{wal_id}{SUFFIX}"
            try:
                with self._objects.create(path) as sink:
                    for part in image.parts:
                        sink.write(part)
            except ObjectExists:
                continue
            except ObjectStoreError as error:
                raise WriteFailed(f"the object store refused {path}: {error}") from error
            staged = _staged_chunks(wal_id, path, created_at_ms, image.chunks, dict(chunks))
            return StagedObject(wal_id, path, created_at_ms, image.size_bytes, staged)
        raise WriteFailed(f"{DRAWS} random names under {target.block.path_prefix} are all taken")


def _by_partition(
    rows: pa.Table, partitions: NDArray[np.int32]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    order = np.argsort(partitions, kind="stable")
    ordered = partitions[order]
    try:
        sorted_rows = rows.take(pa.array(order)).combine_chunks()
    except pa.ArrowInvalid as error:
        raise WriteRefused(f"the rows of one batch are too large together: {error}") from error
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        part = sorted_rows.slice(start, end - start).to_batches()
        if len(part) != 1:
            raise WriteRefused("the rows of one batch have more than 2 GiB")
        yield int(ordered[start]), part[0]


def _staged_chunks(
    wal_id: uuid.UUID,
    path: str,
    created_at_ms: int,
    images: tuple[ChunkImage, ...],
    batches: dict[int, list[BatchInfo]],
) -> tuple[StagedChunk, ...]:
    staged = []
    for image in images:
        accepted = [(batch, at) for at, batch in enumerate(batches[image.stream_id])]
        entry = build_entry(wal_id, path, created_at_ms, image, accepted)
        staged.append(
            StagedChunk(
                image.stream_id, image.record_count, image.chunk_length, entry.SerializeToString()
            )
        )
    return tuple(staged)
