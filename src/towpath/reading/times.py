"""Offsets by time: the first record of a partition that is not older than a moment.

As Kafka's ListOffsets has it, over both halves. Records need not be in the order of their times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from towpath.objects.worker import WorkerObjects
from towpath.reading.parts import FilePart, Part, PartitionPlan
from towpath.reading.rows import rows_of
from towpath.records import table


def first_at_or_after(objects: WorkerObjects, plan: PartitionPlan, timestamp_ms: int) -> int | None:
    """The least offset of the plan whose record's timestamp is `timestamp_ms` or later; None if all
    are earlier. Only parts that may hold it are read, and of these two columns."""
    found: int | None = None
    for part in plan.parts:
        if found is not None and first_offset(part) > found:
            break
        if newest_ms(part) < timestamp_ms:
            continue
        rows = rows_of(objects, plan.partition, part, (table.OFFSET, table.TIMESTAMP))
        at = _first(rows, timestamp_ms * table.MICROSECONDS_PER_MS)
        if at is not None and (found is None or at < found):
            found = at
    return found


def first_offset(part: Part) -> int:
    """The least offset that the part may have."""
    if isinstance(part, FilePart):
        return max(part.start, part.file.first_offset)
    return max(part.start, part.chunk.batches[0][0])


def newest_ms(part: Part) -> int:
    """A time that none of the part's records is later than."""
    return part.file.max_timestamp_ms if isinstance(part, FilePart) else part.max_timestamp_ms


def oldest_ms(part: Part) -> int | None:
    """A time that none of the part's records is earlier than, if it is known."""
    return part.file.min_timestamp_ms if isinstance(part, FilePart) else None


def _first(batches: Iterable[pa.RecordBatch], timestamp_us: int) -> int | None:
    for batch in batches:
        times_us = batch.column(1).cast(pa.int64()).to_numpy()
        late: Sequence[bool] = times_us >= timestamp_us
        if late.any():  # type: ignore[attr-defined]
            return int(batch.column(0).to_numpy()[late.argmax()])  # type: ignore[attr-defined]
    return None
