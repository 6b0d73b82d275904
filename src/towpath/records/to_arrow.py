"""Stored record batches become one Arrow record batch of a table's columns.

The wire format is decoded by `kernels/to_arrow.py`, which is loaded when it is first needed: call
this off the event loop. The result owns its memory; the given bytes may go once a call returns.

Batches may come from an iterator that opens them one by one. Each is taken apart at once, while the
processor's caches still hold what was decompressed, and its values go right where the column has
them: joining all of them first costs a third of the decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from towpath.errors import CorruptBatch
from towpath.objects.store import Buffer
from towpath.records import table, walk
from towpath.records.batch import ATTRIBUTE_LOG_APPEND_TIME, BatchHeader
from towpath.records.gathered import GatheredColumn, binary_column
from towpath.records.open_batch import OpenBatch, corrupt, open_batch

if TYPE_CHECKING:
    from types import ModuleType

BATCH_FIELDS: Final = 7
"""How many numbers of a batch the kernel needs."""
ARROW_BYTES_MAX: Final = (1 << 31) - 1
"""What 32-bit offsets of an Arrow column can reach."""
CHUNK_BYTES: Final = 256 << 10
"""Smaller batches are taken apart together: calling a kernel takes as long as some records."""


def batches_to_arrow(
    batches: Sequence[tuple[Buffer, int]], partition: int, schema: pa.Schema
) -> pa.RecordBatch:
    """The records of whole batches, each given with its base offset, in that order.

    `schema` is `table.arrow_schema` with any field ids, or some of its fields; what is not asked
    for is not looked at. CorruptBatch, which names the base offset, for whatever is wrong with a
    batch; OverflowError if the records are too many bytes for one Arrow batch (2 GiB): give fewer.
    """
    opened = (open_batch(batch, base_offset) for batch, base_offset in batches)
    return decode_batches(opened, partition, schema)


def decode_batches(
    batches: Iterable[OpenBatch], partition: int, schema: pa.Schema, bytes_expected: int = 0
) -> pa.RecordBatch:
    """Like `batches_to_arrow`, for batches that are open. `bytes_expected` is what the values may
    take together; if they take more, they are moved."""
    decoder = _Decoder(schema, bytes_expected)
    for chunk in _chunks(batches):
        decoder.add(chunk)
    return decoder.rows(partition)


def _chunks(batches: Iterable[OpenBatch]) -> Iterator[list[OpenBatch]]:
    """Large batches by themselves, small ones together."""
    chunk: list[OpenBatch] = []
    total_bytes, chunk_bytes = 0, 0
    for count, batch in enumerate(batches, 1):
        total_bytes += len(batch.payload)
        if total_bytes > ARROW_BYTES_MAX:
            raise OverflowError(
                f"{count} batches of {total_bytes} bytes together are too much for one Arrow "
                f"batch, which takes {ARROW_BYTES_MAX}"
            )
        chunk.append(batch)
        chunk_bytes += len(batch.payload)
        if chunk_bytes >= CHUNK_BYTES:
            yield chunk
            chunk, chunk_bytes = [], 0
    if chunk:
        yield chunk


class _Decoder:
    """The columns of one Arrow batch while they grow."""

    def __init__(self, schema: pa.Schema, bytes_expected: int) -> None:
        # numba takes a second to load, and is not wanted in a process that decodes nothing.
        from towpath.records.kernels import to_arrow as kernels

        self._kernels = kernels
        self._schema = schema
        self._names = frozenset(schema.names)
        self._batches: list[BatchHeader] = []
        self._offsets: list[NDArray[np.int64]] = []
        self._timestamps_us: list[NDArray[np.int64]] = []
        self._keys = GatheredColumn()
        self._values = GatheredColumn(bytes_expected)
        self._headers: list[pa.Array] = []

    def add(self, chunk: Sequence[OpenBatch]) -> None:
        """Take some batches apart. Raises CorruptBatch."""
        kernels = self._kernels
        data = _joined(chunk)
        row_count = sum(batch.header.record_count for batch in chunk)
        offsets = np.empty(row_count, np.int64)
        timestamps_us = np.empty(row_count, np.int64)
        records = np.empty((row_count, kernels.RECORD_FIELDS), np.int32)
        code, wrong, index = kernels.find(data, _rows(chunk), offsets, timestamps_us, records)
        if code != walk.OK:
            raise _damaged(chunk[wrong], index, code)
        self._batches += [batch.header for batch in chunk]
        self._offsets.append(offsets)
        self._timestamps_us.append(timestamps_us)
        if table.KEY in self._names:
            self._keys.add(kernels, data, records, kernels.KEY_AT)
        if table.VALUE in self._names:
            self._values.add(kernels, data, records, kernels.VALUE_AT)
        if table.HEADERS in self._names:
            kind = self._schema.field(table.HEADERS).type
            self._headers.append(_headers(kernels, data, records, chunk, kind))

    def rows(self, partition: int) -> pa.RecordBatch:
        """All that was added."""
        row_count = sum(len(offsets) for offsets in self._offsets)
        arrays = _batch_columns(self._batches)
        arrays[table.PARTITION] = _plain(pa.int32(), np.full(row_count, partition, np.int32))
        arrays[table.OFFSET] = _plain(pa.int64(), _one(self._offsets))
        arrays[table.TIMESTAMP] = _plain(table.TIMESTAMP_TYPE, _one(self._timestamps_us))
        if table.KEY in self._names:
            arrays[table.KEY] = self._keys.column()
        if table.VALUE in self._names:
            arrays[table.VALUE] = self._values.column()
        if table.HEADERS in self._names:
            kind = self._schema.field(table.HEADERS).type
            arrays[table.HEADERS] = pa.concat_arrays(self._headers or [pa.array([], kind)])
        chosen = [arrays[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(chosen, schema=self._schema)


def _one(pieces: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.int64), *pieces])


def _damaged(batch: OpenBatch, record: int, code: int) -> CorruptBatch:
    return corrupt(batch.base_offset, f"is damaged: record {record} {walk.REASONS[code]}")


def _joined(batches: Sequence[OpenBatch]) -> NDArray[np.uint8]:
    """All payloads behind each other, read-only: kernels are compiled for that."""
    if len(batches) == 1:
        return np.frombuffer(memoryview(batches[0].payload).toreadonly(), np.uint8)
    return np.frombuffer(b"".join([batch.payload for batch in batches]), np.uint8)


def _rows(batches: Sequence[OpenBatch]) -> NDArray[np.int64]:
    """The batches as the kernel wants them: the order of its `START`, `END` and so on."""
    rows = []
    at = 0
    for base_offset, header, payload in batches:
        end = at + len(payload)
        rows.append(
            (
                at,
                end,
                header.record_count,
                base_offset,
                header.base_timestamp_ms,
                header.max_timestamp_ms,
                header.attributes & ATTRIBUTE_LOG_APPEND_TIME,
            )
        )
        at = end
    return np.array(rows, np.int64).reshape(len(rows), BATCH_FIELDS)


# Columns


def _plain(kind: pa.DataType, values: NDArray[Any], valid: pa.Buffer | None = None) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])


def _headers(
    kernels: ModuleType,
    data: NDArray[np.uint8],
    records: NDArray[np.int32],
    batches: Sequence[OpenBatch],
    kind: pa.DataType,
) -> pa.Array:
    """The lists of headers, of the schema's type."""
    count = int(records[:, kernels.HEADER_COUNT].sum(dtype=np.int64))
    list_offsets = np.zeros(len(records) + 1, np.int32)
    headers = np.empty((count, kernels.HEADER_FIELDS), np.int32)
    if count:
        code, row = kernels.find_headers(data, records, list_offsets, headers)
        if code != walk.OK:
            raise _damaged_row(batches, row, code)
    pairs = pa.Array.from_buffers(
        kind.value_type,
        count,
        [None],
        children=[
            binary_column(kernels, data, headers, kernels.KEY_AT, pa.string()),
            binary_column(kernels, data, headers, kernels.VALUE_AT, pa.binary()),
        ],
    )
    buffers = [None, pa.py_buffer(list_offsets)]
    return pa.Array.from_buffers(kind, len(records), buffers, children=[pairs])


def _damaged_row(batches: Sequence[OpenBatch], row: int, code: int) -> CorruptBatch:
    for batch in batches:
        if row < batch.header.record_count:
            return _damaged(batch, row, code)
        row -= batch.header.record_count
    raise AssertionError("unreachable: every row belongs to a batch")


def _batch_columns(headers: Sequence[BatchHeader]) -> dict[str, pa.Array]:
    """What all records of a batch have in common. Without a producer id its fields are null."""
    counts = [header.record_count for header in headers]

    def repeated(values: list[int], kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
        return np.repeat(np.array(values, kind), counts)

    known = np.array([header.producer_id >= 0 for header in headers], np.bool_)
    valid = None
    if not known.all():
        valid = pa.py_buffer(np.packbits(np.repeat(known, counts), bitorder="little"))
    ids = repeated([header.producer_id for header in headers], np.int64)
    epochs = repeated([header.producer_epoch for header in headers], np.int32)
    sequences = repeated([header.base_sequence for header in headers], np.int32)
    attributes = repeated([header.attributes for header in headers], np.int32)
    return {
        table.PRODUCER_ID: _plain(pa.int64(), ids, valid),
        table.PRODUCER_EPOCH: _plain(pa.int32(), epochs, valid),
        table.BASE_SEQUENCE: _plain(pa.int32(), sequences, valid),
        table.ATTRIBUTES: _plain(pa.int32(), attributes),
    }
