"""Which records survive key compaction: for every key the one with the greatest offset.

A worker finds them by itself as long as the keys fit its memory. Beyond that a shuffle finds them
and leaves files of sorted offsets, which are read piece by piece.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from towpath.lakehouse.jobs.parquet_in import row_groups
from towpath.lakehouse.plan import Job
from towpath.objects.range_file import RangeFile
from towpath.objects.worker import WorkerObjects
from towpath.records import table

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]

MERGE_BYTES: Final = 32 << 20
"""Keys of so many bytes are collected before they are made unique."""
KEY_AND_OFFSET: Final = pa.schema([(table.KEY, pa.large_binary()), (table.OFFSET, pa.int64())])
"""Large, because all keys together may have more than 2 GiB."""
PIECES_IN_MEMORY: Final = 8
"""Row groups of survivors' files that are kept."""


class Survivors(Protocol):
    """The offsets that stay."""

    def among(self, offsets: Offsets) -> Mask:
        """Which of these offsets stay."""
        ...


class KeysOutgrowMemory(Exception):
    """There are too many keys for one worker."""


class KnownSurvivors:
    """Survivors in memory, sorted."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets

    def among(self, offsets: Offsets) -> Mask:
        return is_in(offsets, self._offsets)


class FiledSurvivors:
    """Survivors in files that a shuffle wrote: sorted, each file above the one before."""

    def __init__(self, objects: WorkerObjects, paths: Sequence[tuple[str, int]]) -> None:
        """`paths` with the sizes of the files."""
        self._files = [
            pq.ParquetFile(RangeFile(objects, path, size_bytes)) for path, size_bytes in paths
        ]
        self._pieces = [
            (statistics.min, statistics.max, file, group)
            for file in self._files
            for group in range(file.num_row_groups)
            if (statistics := file.metadata.row_group(group).column(0).statistics) is not None
        ]
        self._loaded: OrderedDict[int, Offsets] = OrderedDict()

    def among(self, offsets: Offsets) -> Mask:
        mask = np.zeros(len(offsets), np.bool_)
        if len(offsets):
            low, high = int(offsets.min()), int(offsets.max())
            for at, (first, last, _, _) in enumerate(self._pieces):
                if first <= high and last >= low:
                    mask |= is_in(offsets, self._piece(at))
        return mask

    def _piece(self, at: int) -> Offsets:
        found = self._loaded.get(at)
        if found is None:
            _, _, file, group = self._pieces[at]
            rows = file.read_row_group(group, use_threads=False)
            found = self._loaded[at] = rows.column(0).to_numpy()
            if len(self._loaded) > PIECES_IN_MEMORY:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(at)
        return found


def is_in(offsets: Offsets, sorted_offsets: Offsets) -> Mask:
    """Which offsets are among the sorted ones."""
    if not len(sorted_offsets):
        return np.zeros(len(offsets), np.bool_)
    at = np.searchsorted(sorted_offsets, offsets)
    found: Mask = sorted_offsets[np.minimum(at, len(sorted_offsets) - 1)] == offsets
    return found


def find(job: Job, objects: WorkerObjects) -> KnownSurvivors:
    """Read the keys of all the job's files; raises KeysOutgrowMemory.

    Records without a key are superseded by nothing and belong to no key: as in Kafka they go.
    """
    latest = KEY_AND_OFFSET.empty_table()
    waiting: list[pa.Table] = []
    waiting_bytes = 0
    for file in job.files:
        for rows in row_groups(objects, file, [table.KEY, table.OFFSET]):
            keyed = rows.filter(rows.column(table.KEY).is_valid()).select([table.KEY, table.OFFSET])
            waiting.append(keyed)
            waiting_bytes += keyed.nbytes
            if waiting_bytes >= MERGE_BYTES:
                latest = _merge(job, [latest, *waiting])
                waiting, waiting_bytes = [], 0
    latest = _merge(job, [latest, *waiting])
    return KnownSurvivors(np.sort(latest.column(table.OFFSET).to_numpy()))


def _merge(job: Job, parts: Sequence[pa.Table]) -> pa.Table:
    """One row per key, its greatest offset."""
    rows = pa.concat_tables(
        [part.select(KEY_AND_OFFSET.names).cast(KEY_AND_OFFSET) for part in parts]
    )
    merged = rows.group_by(table.KEY, use_threads=False).aggregate([(table.OFFSET, "max")])
    latest = pa.table(
        [merged.column(table.KEY), merged.column(f"{table.OFFSET}_max")], KEY_AND_OFFSET
    )
    if latest.nbytes > job.key_memory_bytes:
        raise KeysOutgrowMemory(f"{job.title}: keys of {latest.nbytes} bytes")
    return latest
