"""Keys of the pipeline: tasks, which streams have one, locks, and Parquet files due for deletion.

A task's record is the state of its saga. It is only changed by compare-and-set, so a process that
lost its lock in its sleep cannot take a task back that another one went on with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from towpath.metadata.keys import ROOT, json_value
from towpath.metadata.keys.numbers import pad, unpad
from towpath.metadata.keys.streams import STREAMS_PREFIX

ACTIVE_PREFIX = f"{ROOT}/compaction/active/"
LOCKS_PREFIX = f"{ROOT}/compaction/locks/"
FILES_GC_PREFIX = f"{ROOT}/parquet/gc/"


class TaskState(Enum):
    """How far a task has come, in this order."""

    CREATED = "CREATED"
    PARQUET_WRITTEN = "PARQUET_WRITTEN"
    ICEBERG_COMMITTED = "ICEBERG_COMMITTED"
    INDEX_SWAPPED = "INDEX_SWAPPED"
    WAL_GC_READY = "WAL_GC_READY"
    DONE = "DONE"


def task(stream_id: int, task_id: str) -> str:
    """The record of a task."""
    return f"{tasks_prefix(stream_id)}{task_id}"


def tasks_prefix(stream_id: int) -> str:
    """Every task of a stream."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}/compaction/tasks/"


def active(stream_id: int) -> str:
    """Says that the stream may have an unfinished task; written before it, deleted after it."""
    return f"{ACTIVE_PREFIX}{pad(stream_id)}"


def parse_active(key: str) -> int:
    """The stream of an active key."""
    return unpad(key[len(ACTIVE_PREFIX) :])


def cleaned(stream_id: int) -> str:
    """How far, and when, a stream was key-compacted."""
    return f"{STREAMS_PREFIX}{pad(stream_id)}/compaction/cleaned"


def stream_lock(stream_id: int) -> str:
    """The ephemeral lock of the process that works on the stream."""
    return f"{LOCKS_PREFIX}{pad(stream_id)}"


def table_lock(topic: str) -> str:
    """The ephemeral lock of the process that commits to the topic's table."""
    return f"{ROOT}/iceberg/{topic}/lock"


def file_gc(topic_number: int, path: str) -> str:
    """The order to delete a Parquet file that left the index and the table."""
    digest = hashlib.sha256(path.encode()).hexdigest()[:32]
    return f"{FILES_GC_PREFIX}{pad(topic_number)}/{digest}"


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task of one stream. Offsets are absolute, `end` is exclusive."""

    task_id: str
    state: TaskState
    kind: str
    topic: str
    topic_number: int
    partition: int
    start: int
    end: int
    last_key: str
    """The index entry that the new one will overwrite, and the version it was planned at."""
    last_version: int
    wal_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    written_at_ms: int
    """When the newest of the replaced entries was written."""
    created_at_ms: int
    output_dir: str
    files: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """What was written, as `lakehouse.plan.ParquetFile` in JSON."""
    removed: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """The files that these replace in the table."""
    snapshot_id: int | None = None
    sequence_number: int = 0
    """Of the table commit; replaced files are needed by the snapshots before it."""

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "taskId": self.task_id,
                "state": self.state.value,
                "kind": self.kind,
                "topic": self.topic,
                "topicNumber": self.topic_number,
                "partition": self.partition,
                "startOffset": self.start,
                "endOffset": self.end,
                "lastKey": self.last_key,
                "lastVersion": self.last_version,
                "walBytes": self.wal_bytes,
                "minTimestampMs": self.min_timestamp_ms,
                "maxTimestampMs": self.max_timestamp_ms,
                "writtenAt": self.written_at_ms,
                "createdAt": self.created_at_ms,
                "outputDir": self.output_dir,
                "parquetFiles": [dict(file) for file in self.files],
                "removedFiles": [dict(file) for file in self.removed],
                "snapshotId": self.snapshot_id,
                "sequenceNumber": self.sequence_number,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> TaskRecord:
        fields = json_value.decode(value, 1, "compaction task")
        try:
            state = TaskState(fields["state"])
        except ValueError as error:
            raise json_value.UnknownValueVersion(f"unknown task state: {error}") from error
        return cls(
            fields["taskId"],
            state,
            fields["kind"],
            fields["topic"],
            fields["topicNumber"],
            fields["partition"],
            fields["startOffset"],
            fields["endOffset"],
            fields["lastKey"],
            fields["lastVersion"],
            fields["walBytes"],
            fields["minTimestampMs"],
            fields["maxTimestampMs"],
            fields["writtenAt"],
            fields["createdAt"],
            fields["outputDir"],
            tuple(fields["parquetFiles"]),
            tuple(fields["removedFiles"]),
            fields["snapshotId"],
            fields["sequenceNumber"],
        )


@dataclass(frozen=True, slots=True)
class FileGc:
    """A Parquet file to delete once its grace is over and no kept snapshot is older than the commit
    that took it out of the table."""

    path: str
    topic: str
    stream_id: int
    first_offset: int
    sequence_number: int
    delete_after_ms: int

    def encode(self) -> bytes:
        return json_value.encode(
            1,
            {
                "path": self.path,
                "topic": self.topic,
                "streamId": self.stream_id,
                "firstOffset": self.first_offset,
                "sequenceNumber": self.sequence_number,
                "deleteAfterMs": self.delete_after_ms,
            },
        )

    @classmethod
    def decode(cls, value: bytes) -> FileGc:
        fields = json_value.decode(value, 1, "Parquet gc order")
        return cls(
            fields["path"],
            fields["topic"],
            fields["streamId"],
            fields["firstOffset"],
            fields["sequenceNumber"],
            fields["deleteAfterMs"],
        )


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Up to which offset a stream was key-compacted, and when each part of it first was.

    Markers of deleted keys may go a time after the part that holds them was first compacted.
    """

    points: tuple[tuple[int, int], ...] = ()
    """`(end offset, time in ms)`, rising: offsets below the end were compacted at that time."""

    @property
    def end(self) -> int:
        """Everything below is compacted."""
        return self.points[-1][0] if self.points else 0

    def first_cleaned_before(self, time_ms: int) -> int:
        """Offsets below this were first compacted at or before the time."""
        return max((end for end, at_ms in self.points if at_ms <= time_ms), default=0)

    def extended(self, end: int, now_ms: int, points_max: int = 100) -> Cleaned:
        """After another compaction up to `end`. Beyond the limit the oldest two points become the
        later one of them, which keeps markers longer, never shorter."""
        points = list(self.points)
        if end > self.end:
            points.append((end, max(now_ms, points[-1][1] if points else now_ms)))
        if len(points) > points_max:
            points = points[1:]
        return Cleaned(tuple(points))

    def encode(self) -> bytes:
        return json_value.encode(1, {"points": self.points})

    @classmethod
    def decode(cls, value: bytes) -> Cleaned:
        fields = json_value.decode(value, 1, "cleaned")
        return cls(tuple((end, at_ms) for end, at_ms in fields["points"]))
