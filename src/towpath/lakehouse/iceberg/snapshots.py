"""One change as a new snapshot: its manifests, its summary, and what the catalog is asked for.

The catalog's answer decides, once: pyiceberg's own transactions would repeat a commit that failed
on a newer state of the table, with a range that somebody else may have taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from towpath.lakehouse.iceberg.manifests import (
    FORMAT_VERSION,
    Manifests,
    with_status,
    write_list,
    write_manifest,
)
from towpath.lakehouse.iceberg.tiers import FILES_MAX, Piece, live_files, merge
from towpath.lakehouse.tables import CommitConflict, TableError

OPERATIONS = {
    (False, False): Operation.APPEND,
    (True, False): Operation.APPEND,
    (False, True): Operation.DELETE,
    (True, True): Operation.OVERWRITE,
}
"""By whether files are added and removed."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a snapshot changes: files by their URI, and what is written down about it."""

    added: Sequence[DataFile]
    removed: Sequence[str]
    keeps_rows: bool
    """The removed files' rows are those of the added ones."""
    summary: Mapping[str, str] = field(hash=False)
    properties: Mapping[str, str] = field(hash=False)


@dataclass(slots=True)
class Draft:
    """A snapshot whose files are written, for a catalog to accept or not."""

    snapshot: Snapshot
    updates: tuple[TableUpdate, ...]
    manifests: Sequence[ManifestFile]
    entries: Mapping[str, Sequence[ManifestEntry]]
    """Live entries of the new manifests, as they will be read."""


def fence(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """What every change of ours requires: the same table, and no snapshot since it was loaded."""
    head = metadata.refs.get(MAIN_BRANCH)
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate(
            {"ref": MAIN_BRANCH, "snapshot-id": head.snapshot_id if head else None}
        ),
    )


class SnapshotWriter:
    """Writes the files of one new snapshot of one table."""

    def __init__(self, table: Table, manifests: Manifests, now_ms: int) -> None:
        if table.metadata.format_version != FORMAT_VERSION:
            raise TableError(f"format version {table.metadata.format_version} cannot be written")
        self._metadata = table.metadata
        self._io: FileIO = table.io
        self._manifests = manifests
        self._new_path: Callable[[str], str] = table.location_provider().new_metadata_location
        self._parent = table.metadata.snapshot_by_name(MAIN_BRANCH)
        self._snapshot_id = table.metadata.new_snapshot_id()
        self._sequence_number = table.metadata.next_sequence_number()
        # Catalogs refuse a snapshot that seems older than the table, whoever's clock is wrong.
        self._now_ms = max(now_ms, table.metadata.last_updated_ms)
        self._written: list[str] = []
        self._entries: dict[str, Sequence[ManifestEntry]] = {}
        self._untouched: list[ManifestFile] = []
        """Manifests of row-level deletes, which we do not write."""

    @property
    def written(self) -> Sequence[str]:
        """The files written so far: to be deleted if the commit certainly did not happen."""
        return self._written

    def write(self, contents: Contents) -> Draft:
        """Write it. Raises CommitConflict if a removed file is not in the table."""
        pieces, gone = self._pieces(contents)
        manifests = self._write_manifests(pieces)
        path = self._path(f"snap-{self._snapshot_id}-0-{self._metadata.table_uuid}.avro")
        parent_id = self._parent.snapshot_id if self._parent is not None else None
        numbered = write_list(
            self._io, path, self._snapshot_id, parent_id, self._sequence_number, manifests
        )
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self._snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": self._sequence_number,
                "timestamp-ms": self._now_ms,
                "manifest-list": path,
                "summary": self._summary(contents, gone),
                "schema-id": self._metadata.current_schema_id,
            }
        )
        return Draft(
            snapshot,
            self._updates(snapshot, contents.properties),
            numbered,
            self._entries,
        )

    def _pieces(self, contents: Contents) -> tuple[list[Piece], list[DataFile]]:
        """What the snapshot's manifests are made of, and the files that leave the table."""
        kept, touched = self._split(contents.removed)
        gone = set(contents.removed)
        fresh: dict[int, list[ManifestEntry]] = defaultdict(list)
        for file in contents.added:
            fresh[file.spec_id].append(self._added(file))
        pieces, removed = [], []
        for manifest, entries in touched:
            staying = []
            for old in entries:
                if old.data_file.file_path in gone:
                    removed.append(old.data_file)
                    fresh[manifest.partition_spec_id].append(
                        with_status(old, ManifestEntryStatus.DELETED, self._snapshot_id)
                    )
                else:
                    staying.append(with_status(old, ManifestEntryStatus.EXISTING, old.snapshot_id))
            if staying:
                pieces.append(Piece(manifest.partition_spec_id, len(staying), entries=staying))
        new = [
            Piece(spec_id, sum(map(_is_added, part)), entries=part)
            for spec_id, entries in fresh.items()
            for part in _parts(entries)
        ]
        old_pieces = [
            Piece(manifest.partition_spec_id, live_files(manifest), kept=manifest)
            for manifest in kept
            if manifest.content == ManifestContent.DATA
        ]
        self._untouched = [m for m in kept if m.content != ManifestContent.DATA]
        return merge([*new, *pieces, *old_pieces]), removed

    def _split(
        self, removed: Sequence[str]
    ) -> tuple[list[ManifestFile], list[tuple[ManifestFile, Sequence[ManifestEntry]]]]:
        """The parent's manifests without any of the removed files, and those with some. The newest
        are looked at first, because what is replaced was mostly written lately."""
        missing = set(removed)
        kept, touched = [], []
        for manifest in self._manifests.of_snapshot(self._io, self._parent):
            if not missing or manifest.content != ManifestContent.DATA:
                if manifest.content != ManifestContent.DATA or live_files(manifest):
                    kept.append(manifest)
                continue
            entries = self._manifests.live_entries(self._io, manifest)
            found = missing.intersection(old.data_file.file_path for old in entries)
            if found:
                touched.append((manifest, entries))
                missing -= found
            elif entries:
                kept.append(manifest)
        if missing:
            raise CommitConflict(f"not in the table any more: {', '.join(sorted(missing)[:3])}")
        return kept, touched

    def _added(self, file: DataFile) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=self._snapshot_id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )

    def _write_manifests(self, pieces: Sequence[Piece]) -> list[ManifestFile]:
        schema, specs = self._metadata.schema(), self._metadata.specs()
        result = []
        for number, piece in enumerate(pieces):
            if piece.kept is not None:
                result.append(piece.kept)
                continue
            entries = list(piece.entries)
            for manifest in piece.merged:
                entries += [
                    with_status(old, ManifestEntryStatus.EXISTING, old.snapshot_id)
                    for old in self._manifests.live_entries(self._io, manifest)
                ]
            path = self._path(f"{self._metadata.table_uuid}-{self._snapshot_id}-m{number}.avro")
            spec = specs[piece.spec_id]
            result.append(write_manifest(self._io, path, schema, spec, self._snapshot_id, entries))
            self._entries[path] = [self._as_read(new) for new in entries if _is_live(new)]
        return result + self._untouched

    def _as_read(self, new: ManifestEntry) -> ManifestEntry:
        """An entry with the sequence number it inherits from the commit."""
        if new.sequence_number is not None:
            return new
        numbered = with_status(new, new.status, new.snapshot_id)
        numbered.sequence_number = numbered.file_sequence_number = self._sequence_number
        return numbered

    def _path(self, name: str) -> str:
        """Where a file of the snapshot goes. The name tells whose it is, also where the tables of a
        topic and of its predecessor share a directory."""
        path = self._new_path(name)
        self._written.append(path)
        return path

    def _summary(self, contents: Contents, removed: Sequence[DataFile]) -> Summary:
        schema, specs = self._metadata.schema(), self._metadata.specs()
        collector = SnapshotSummaryCollector()
        for file in contents.added:
            collector.add_file(file, schema, specs[file.spec_id])
        for file in removed:
            collector.remove_file(file, schema, specs[file.spec_id])
        operation = OPERATIONS[bool(contents.added), bool(removed)]
        # pyiceberg knows no totals for REPLACE: they are those of an OVERWRITE.
        totals = update_snapshot_summaries(
            Summary(operation, **collector.build()),
            self._parent.summary if self._parent is not None else None,
        )
        if contents.keeps_rows and removed:
            operation = Operation.REPLACE
        return Summary(operation, **{**totals.additional_properties, **contents.summary})

    def _updates(
        self, snapshot: Snapshot, properties: Mapping[str, str]
    ) -> tuple[TableUpdate, ...]:
        head = self._metadata.refs.get(MAIN_BRANCH)
        return (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(
                {
                    "ref-name": MAIN_BRANCH,
                    "type": SnapshotRefType.BRANCH,
                    "snapshot-id": snapshot.snapshot_id,
                    "max-ref-age-ms": head.max_ref_age_ms if head else None,
                    "max-snapshot-age-ms": head.max_snapshot_age_ms if head else None,
                    "min-snapshots-to-keep": head.min_snapshots_to_keep if head else None,
                }
            ),
            SetPropertiesUpdate(updates=dict(properties)),
        )


def _parts(entries: list[ManifestEntry]) -> Iterator[list[ManifestEntry]]:
    """The entries in parts that a manifest may hold."""
    for at in range(0, len(entries), FILES_MAX):
        yield entries[at : at + FILES_MAX]


def _is_added(new: ManifestEntry) -> bool:
    return new.status == ManifestEntryStatus.ADDED


def _is_live(new: ManifestEntry) -> bool:
    return new.status != ManifestEntryStatus.DELETED
