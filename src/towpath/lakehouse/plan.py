"""What a job is told to do and what it reports: plain values that travel to a worker and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from towpath.lakehouse.wal_chunk import WalChunk as WalChunk
from towpath.typed.columns import TypedColumns
from towpath.typed.declaration import NO_STAMP
from towpath.typed.types import Fields


class JobKind(Enum):
    """What a job makes of its input."""

    COMPACT = "compact"
    """WAL chunks become Parquet."""
    REWRITE = "rewrite"
    """Small Parquet files become large ones; the records stay the same."""
    KEY_COMPACT = "key-compact"
    """Only the newest record of each key stays."""


@dataclass(frozen=True, slots=True)
class ColumnSizes:
    """What the footer tells of one leaf column over all row groups."""

    size_bytes: int
    values: int
    nulls: int


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """One written data file. `path` is relative to the object store's root; offsets and times are
    those of its own records, the last ones inclusive."""

    path: str
    size_bytes: int
    footer_bytes: int
    """The file's last bytes that hold the footer, with its length and magic."""
    record_count: int
    first_offset: int
    last_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    day: int | None = None
    """Days since 1970-01-01 when the table is split by day."""
    columns: Mapping[str, ColumnSizes] = field(default_factory=dict, hash=False)
    """By dotted path as in `records.table`, a typed one as `#` and its field id; empty if not known
    any more."""
    split_offsets: tuple[int, ...] = ()
    """Where each row group begins."""
    value_stamp: str = NO_STAMP
    """Which typed columns it has: the stamp of `typed.declaration`."""

    def to_json(self) -> dict[str, Any]:
        """As a task's record keeps it."""
        return {
            "path": self.path,
            "sizeBytes": self.size_bytes,
            "footerBytes": self.footer_bytes,
            "recordCount": self.record_count,
            "firstOffset": self.first_offset,
            "lastOffset": self.last_offset,
            "minTimestampMs": self.min_timestamp_ms,
            "maxTimestampMs": self.max_timestamp_ms,
            "day": self.day,
            "columns": {
                name: [sizes.size_bytes, sizes.values, sizes.nulls]
                for name, sizes in self.columns.items()
            },
            "splitOffsets": list(self.split_offsets),
            "valueStamp": self.value_stamp,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ParquetFile:
        """The inverse of `to_json`."""
        return cls(
            fields["path"],
            fields["sizeBytes"],
            fields["footerBytes"],
            fields["recordCount"],
            fields["firstOffset"],
            fields["lastOffset"],
            fields["minTimestampMs"],
            fields["maxTimestampMs"],
            fields["day"],
            {name: ColumnSizes(*sizes) for name, sizes in fields["columns"].items()},
            tuple(fields["splitOffsets"]),
            # Tasks of releases without typed columns have none.
            fields.get("valueStamp", NO_STAMP),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """Turn `[start, end)` of one stream into Parquet files. Attempts of the same job write files of
    different names; only those that are reported count."""

    task_id: str
    kind: JobKind
    topic: str
    partition: int
    start: int
    end: int
    output_dir: str
    """Relative to the object store's root, with `/` at its end; file names begin with the task."""
    objects_url: str
    field_ids: Mapping[str, int] = field(hash=False)
    chunks: tuple[WalChunk, ...] = ()
    files: tuple[ParquetFile, ...] = ()
    target_file_bytes: int = 128 << 20
    row_group_bytes: int = 8 << 20
    """Uncompressed bytes of a row group, about: a fetch decodes one as a whole."""
    split_by_day: bool = False
    tombstones_below: int = 0
    """Key compaction: markers of deleted keys below this offset have been there long enough."""
    key_memory_bytes: int = 256 << 20
    """Key compaction: what a worker may hold of keys. Beyond it the job asks for a shuffle."""
    survivors: tuple[tuple[str, int], ...] = ()
    """Key compaction after a shuffle: files (and their sizes) of the offsets to keep, in order."""
    objects_options: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """Of the store's service, secrets too: they must not get into titles or logs."""
    progress_to: str | None = None
    """Where its worker tells how far it has come; see `runners/live.py`."""
    part: int = 0
    """Tells the parts of a job apart that was cut to be run by several tasks."""
    typed: TypedColumns | None = field(default=None, hash=False)
    """What the values become beside their bytes."""

    @property
    def input_bytes(self) -> int:
        """What it has to read, about: jobs are balanced by it."""
        wal = sum(length for chunk in self.chunks for _, _, length in chunk.batches)
        return wal + sum(file.size_bytes for file in self.files)

    @property
    def title(self) -> str:
        """What people see: topic, partition and offset range."""
        return f"{self.kind.value} {self.topic}-{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job has come that still runs, or one part of it."""

    task_id: str
    record_count: int
    file_count: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a job: its files, or why it failed."""

    task_id: str
    files: tuple[ParquetFile, ...] = ()
    record_count: int = 0
    input_bytes: int = 0
    cpu_seconds: float = 0.0
    error: str | None = None
    """What went wrong with this job; the others of the run are not touched by it."""
    needs_shuffle: bool = False
    """The keys outgrew a worker's memory: the runner must find the survivors, then run it again."""
    new_columns: Fields = ()
    """Columns to infer from values that had fields beside the known ones: nothing was written, the
    table must get them and the job be run again."""
