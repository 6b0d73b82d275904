"""Which partition a row goes to: the one it names, the one of its key, or one after the other.

Keys are hashed as the Java client hashes them (murmur2), so that a key written here and one
written by such a client meet in the same partition. Rows without a key go to runs of neighbours in
turn, which keeps batches large and partitions even.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from towpath.records import table


class Partitioner:
    """Divides the rows of one task. `first` is the partition where rows without a key begin; tasks
    that begin at different ones fill a topic evenly even if each has few rows."""

    def __init__(self, partitions: int, first: int) -> None:
        self._partitions = partitions
        self._next = first % partitions

    def assign(self, rows: pa.RecordBatch) -> NDArray[np.int32]:
        """The partition of each row; see `rows.to_rows` for the columns."""
        named = rows.column(rows.schema.get_field_index(table.PARTITION))
        keys = rows.column(rows.schema.get_field_index(table.KEY))
        if named.null_count == 0:
            return np.array(named.to_numpy(), np.int32)
        if self._partitions == 1:
            return np.zeros(rows.num_rows, np.int32)
        is_open = named.is_null().to_numpy(zero_copy_only=False)
        assigned = np.array(named.fill_null(0).to_numpy(), np.int32)
        has_key = keys.is_valid().to_numpy(zero_copy_only=False)
        by_key = is_open & has_key
        if by_key.any():
            # numba takes a second to load, and rows without keys do not need it.
            from towpath.records.key_hashes import key_partitions

            assigned[by_key] = key_partitions(keys, self._partitions)[by_key]
        in_turn = np.flatnonzero(is_open & ~has_key)
        if len(in_turn):
            assigned[in_turn] = self._runs(len(in_turn))
        return assigned

    def _runs(self, count: int) -> NDArray[np.int32]:
        """Partitions for rows without a key: as many equal runs as there are partitions."""
        run_rows = -(-count // self._partitions)
        runs = np.arange(count, dtype=np.int64) // run_rows + self._next
        self._next = int(runs[-1] + 1) % self._partitions
        return (runs % self._partitions).astype(np.int32)
