"""A few record batches as Arrow columns, decoded in Python: right away, without loading numba (or
pandas).

The same rows as `to_arrow.decode_batches` gives, which decodes a hundred times as fast once its
kernel is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from towpath.records.columns import column_of
from towpath.records.few_columns import few_columns
from towpath.records.open_batch import OpenBatch


def decode_few(batches: Iterable[OpenBatch], partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """The records of the batches, in their order. Raises CorruptBatch."""
    columns = few_columns(batches, partition)
    arrays = [column_of(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
