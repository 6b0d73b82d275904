"""How a table keeps the marks of its partitions: in one property, and each snapshot's offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from towpath.lakehouse.tables import Mark, TableError

PARTITIONS = "dray.partitions"
"""Table property: `{"0":[end,"task","rewrite"],...}`."""
OFFSETS = "dray.offsets"
"""Snapshot summary: `{"0":end,...}`, how far each partition had come."""
TASKS = "dray.tasks"
"""Snapshot summary: the tasks of this commit, with commas between them."""


def encode_marks(marks: Mapping[int, Mark]) -> str:
    """The value of the table's property."""
    return _dump(
        {
            str(partition): [mark.end, mark.task_id, mark.rewrite_id]
            for partition, mark in sorted(marks.items())
        }
    )


def decode_marks(text: str | None) -> dict[int, Mark]:
    """The inverse of `encode_marks`; no marks without a text. Raises TableError if it is spoilt."""
    if text is None:
        return {}
    try:
        return {
            int(partition): Mark(int(end), str(task_id), str(rewrite_id))
            for partition, (end, task_id, rewrite_id) in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise TableError(f"the table's property {PARTITIONS} is spoilt: {error}") from error


def encode_offsets(marks: Mapping[int, Mark]) -> str:
    """Where each partition ends, for a snapshot's summary."""
    return _dump({str(partition): mark.end for partition, mark in sorted(marks.items())})


def decode_offsets(text: str | None) -> dict[int, int]:
    """The inverse of `encode_offsets`; empty if there is none or it is spoilt."""
    try:
        return {int(partition): int(end) for partition, end in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def encode_tasks(marks: Iterable[Mark], before: Iterable[Mark]) -> str:
    """The tasks that `marks` name and `before` does not."""
    known = {task for mark in before for task in (mark.task_id, mark.rewrite_id)}
    named = {task for mark in marks for task in (mark.task_id, mark.rewrite_id)}
    return ",".join(sorted(named - known - {""}))


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
