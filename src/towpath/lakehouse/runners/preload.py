"""Loads what jobs need, kernels included, by decoding a batch. Starts no threads: workers are
forked from the process that calls this, and get along without the parts of it that are missing."""

from __future__ import annotations

from towpath.lakehouse.jobs import compact  # noqa: F401 - loaded for the workers' sake.
from towpath.records import table
from towpath.records.build import NewRecord, build_batch
from towpath.records.to_arrow import batches_to_arrow


def preload() -> None:
    """Decode records of every shape, so that all kernels are compiled or read from their cache."""
    headers = (("name", b"value"), ("nothing", None))
    records = [NewRecord(b"value", b"key", headers=headers), NewRecord(None)]
    batch = build_batch(records)
    rows = batches_to_arrow([(batch, 0), (batch, len(records))], 0, table.arrow_schema())
    # pyarrow loads pandas for this, if it is there.
    rows.column(table.OFFSET).to_numpy()
