"""What tables are there and what is in them, for people: plain values, read in one thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from towpath.lakehouse.iceberg import errors, marks, properties
from towpath.lakehouse.iceberg.catalog import CatalogSettings, open_catalog
from towpath.lakehouse.iceberg.data_files import parquet_file
from towpath.lakehouse.iceberg.inventory import live_files
from towpath.lakehouse.iceberg.manifests import Manifests
from towpath.lakehouse.tables import Mark, TableMissing


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One table as it is now."""

    name: str
    """Without the namespace."""
    identifier: str
    topic: str | None
    """None for a table that Towpath did not make."""
    topic_number: int | None
    location: str
    metadata_location: str
    rows: int
    files: int
    size_bytes: int
    """Of the current snapshot's data files."""
    snapshots: int
    snapshot_id: int | None
    sequence_number: int
    updated_at_ms: int
    partition_fields: tuple[str, ...]
    marks: Mapping[int, Mark] = field(hash=False)
    """How far each partition has come."""


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """One snapshot that is kept."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at_ms: int
    operation: str
    added_files: int
    deleted_files: int
    added_rows: int
    deleted_rows: int
    total_rows: int
    is_current: bool
    tasks: tuple[str, ...]
    offsets: Mapping[int, int] = field(hash=False)
    """Where each partition ends in it."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """One data file of the current snapshot; None for what a foreign file does not tell."""

    partition: int | None
    uri: str
    rows: int
    size_bytes: int
    first_offset: int | None
    last_offset: int | None
    min_timestamp_ms: int | None
    max_timestamp_ms: int | None
    day: int | None


class TableReader:
    """Reads a catalog's tables; blocks. Raises TableError only. Close it after use."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._manifests = Manifests()
        try:
            self._catalog: Catalog = open_catalog(settings)
        except Exception as error:
            raise errors.of_read(error) from error

    def __enter__(self) -> TableReader:
        return self

    def __exit__(
        self,
        exctype: type[BaseException] | None,
        excinst: BaseException | None,
        exctb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the catalog."""
        self._catalog.close()

    def names(self) -> list[str]:
        """The tables of the namespace, without it; none if it does not exist."""
        try:
            listed = self._catalog.list_tables(self._settings.namespace_tuple)
        except NoSuchNamespaceError:
            return []
        except Exception as error:
            raise errors.of_read(error) from error
        return sorted(identifier[-1] for identifier in listed)

    def tables(self) -> list[TableSummary]:
        """All of them, by name; one that is dropped meanwhile is left out."""
        found = []
        for name in self.names():
            try:
                found.append(self.describe(name))
            except TableMissing:
                continue
        return found

    def describe(self, name: str) -> TableSummary:
        """One table. Raises TableMissing."""
        return _summary(self._load(name))

    def snapshots(self, name: str) -> list[SnapshotSummary]:
        """The snapshots that are kept, the newest first. Raises TableMissing."""
        table = self._load(name)
        head = table.metadata.snapshot_by_name(MAIN_BRANCH)
        current = None if head is None else head.snapshot_id
        found = [
            _snapshot(snapshot, snapshot.snapshot_id == current)
            for snapshot in table.metadata.snapshots
        ]
        return sorted(found, key=lambda one: one.sequence_number, reverse=True)

    def files(self, name: str) -> list[FileSummary]:
        """The current snapshot's data files by partition and offset. Raises TableMissing."""
        table = self._load(name)
        try:
            found = _files(table, self._manifests)
        except Exception as error:
            raise errors.of_read(error) from error
        return sorted(found, key=lambda file: (file.partition or 0, file.first_offset or 0))

    def _load(self, name: str) -> Table:
        try:
            return self._catalog.load_table((*self._settings.namespace_tuple, name))
        except (NoSuchTableError, NoSuchNamespaceError):
            raise TableMissing(f"there is no table {self._settings.namespace}.{name}") from None
        except Exception as error:
            raise errors.of_read(error) from error


def _summary(table: Table) -> TableSummary:
    metadata = table.metadata
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    return TableSummary(
        name=table.name()[-1],
        identifier=".".join(table.name()),
        topic=metadata.properties.get(properties.TOPIC),
        topic_number=properties.topic_number(metadata.properties),
        location=metadata.location,
        metadata_location=table.metadata_location,
        rows=_number(head, "total-records"),
        files=_number(head, "total-data-files"),
        size_bytes=_number(head, "total-files-size"),
        snapshots=len(metadata.snapshots),
        snapshot_id=None if head is None else head.snapshot_id,
        sequence_number=metadata.next_sequence_number() - 1,
        updated_at_ms=metadata.last_updated_ms,
        partition_fields=tuple(field.name for field in metadata.spec().fields),
        marks=marks.decode_marks(metadata.properties.get(marks.PARTITIONS)),
    )


def _snapshot(snapshot: Snapshot, is_current: bool) -> SnapshotSummary:
    told = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return SnapshotSummary(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at_ms=snapshot.timestamp_ms,
        operation="" if snapshot.summary is None else snapshot.summary.operation.value,
        added_files=_number(snapshot, "added-data-files"),
        deleted_files=_number(snapshot, "deleted-data-files"),
        added_rows=_number(snapshot, "added-records"),
        deleted_rows=_number(snapshot, "deleted-records"),
        total_rows=_number(snapshot, "total-records"),
        is_current=is_current,
        tasks=tuple(task for task in told.get(marks.TASKS, "").split(",") if task),
        offsets=marks.decode_offsets(told.get(marks.OFFSETS)),
    )


def _number(snapshot: Snapshot | None, name: str) -> int:
    """A number of a snapshot's summary; 0 if it does not tell."""
    if snapshot is None or snapshot.summary is None:
        return 0
    text = str(snapshot.summary.additional_properties.get(name, ""))
    return int(text) if text.isdecimal() else 0


def _files(table: Table, manifests: Manifests) -> list[FileSummary]:
    schema, specs = table.schema(), table.specs()
    found = []
    for partition, file in live_files(table, manifests):
        known = parquet_file(schema, specs[file.spec_id], file.file_path, file)
        found.append(
            FileSummary(
                partition=partition,
                uri=file.file_path,
                rows=file.record_count,
                size_bytes=file.file_size_in_bytes,
                first_offset=known.first_offset if known else None,
                last_offset=known.last_offset if known else None,
                min_timestamp_ms=known.min_timestamp_ms if known else None,
                max_timestamp_ms=known.max_timestamp_ms if known else None,
                day=known.day if known else None,
            )
        )
    return found
