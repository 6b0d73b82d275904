"""What `towpath tables` tells of a table, its partitions and its snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from towpath.cli.errors import CliError
from towpath.cli.stored_topics import StoredTopic
from towpath.cli.table_document import Snapshot, TableDocument
from towpath.cli.table_files import FileReport
from towpath.lakehouse.iceberg import marks
from towpath.lakehouse.tables import NO_MARK, Mark, TableError
from towpath.log.interface import Bounds


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table. None: not known, or there is none."""

    table: str
    topic: str | None
    topic_exists: bool
    rows: int | None
    files: int | None
    size_bytes: int | None
    snapshots: int
    lag_records: int | None
    """Records that the topic has and the table does not have yet."""
    last_commit_ms: int | None


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition of the topic, in the table and in the log."""

    partition: int
    compacted_end: int
    log_end: int | None
    lag_records: int | None
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """One snapshot and what its commit did."""

    snapshot_id: int
    parent_id: int | None
    current: bool
    committed_at_ms: int
    operation: str | None
    added_files: int
    removed_files: int
    added_rows: int
    removed_rows: int
    offsets: Mapping[int, int] = field(hash=False)
    """How far each partition had come."""


def report_table(document: TableDocument, topic: StoredTopic | None) -> TableReport:
    """The table in one line. `topic` is the topic it belongs to, if that exists."""
    current = document.current
    lags = [_lag(bounds, mark) for _, mark, bounds in _partitions(document, topic)]
    return TableReport(
        table=document.identifier,
        topic=document.topic,
        topic_exists=topic is not None,
        rows=_count(current, "total-records"),
        files=_count(current, "total-data-files"),
        size_bytes=_count(current, "total-files-size"),
        snapshots=len(document.snapshots),
        lag_records=None if topic is None else sum(lag for lag in lags if lag is not None),
        last_commit_ms=None if current is None else current.committed_at_ms,
    )


def report_partitions(
    document: TableDocument, topic: StoredTopic | None, files: Iterable[FileReport]
) -> list[PartitionReport]:
    """Every partition of the topic or the table."""
    by_partition: dict[int, list[FileReport]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    return [
        PartitionReport(
            partition=partition,
            compacted_end=mark.end,
            log_end=None if bounds is None else bounds.end,
            lag_records=_lag(bounds, mark),
            files=len(by_partition.get(partition, [])),
            rows=sum(file.rows for file in by_partition.get(partition, [])),
            size_bytes=sum(file.size_bytes for file in by_partition.get(partition, [])),
        )
        for partition, mark, bounds in _partitions(document, topic)
    ]


def report_snapshots(document: TableDocument) -> list[SnapshotReport]:
    """Every snapshot that is kept, oldest first."""
    current = document.current
    return [
        SnapshotReport(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_id,
            current=current is not None and current.snapshot_id == snapshot.snapshot_id,
            committed_at_ms=snapshot.committed_at_ms,
            operation=snapshot.operation,
            added_files=snapshot.change("added-data-files"),
            removed_files=snapshot.change("deleted-data-files"),
            added_rows=snapshot.change("added-records"),
            removed_rows=snapshot.change("deleted-records"),
            offsets=marks.decode_offsets(snapshot.summary.get(marks.OFFSETS)),
        )
        for snapshot in document.snapshots
    ]


def _partitions(
    document: TableDocument, topic: StoredTopic | None
) -> list[tuple[int, Mark, Bounds | None]]:
    try:
        known = marks.decode_marks(document.properties.get(marks.PARTITIONS))
    except TableError as error:
        raise CliError(f"{document.identifier}: {error}") from error
    in_log = {} if topic is None else topic.partitions
    return [
        (partition, known.get(partition, NO_MARK), in_log.get(partition))
        for partition in sorted({*known, *in_log})
    ]


def _lag(bounds: Bounds | None, mark: Mark) -> int | None:
    """Records that left the log before they got to the table are nothing to wait for."""
    return None if bounds is None else max(0, bounds.end - max(mark.end, bounds.start))


def _count(snapshot: Snapshot | None, name: str) -> int | None:
    """Of a table's total: none in a table without snapshots."""
    return 0 if snapshot is None else snapshot.count(name)
