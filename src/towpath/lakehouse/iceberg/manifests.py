"""Manifests and manifest lists: reading them once, writing them in large blocks.

They never change, so what was read or written is remembered, within limits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TypeVar

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion

REMEMBERED_LISTS = 512
REMEMBERED_ENTRIES = 8_192
"""Entries of all remembered manifests together; one takes about 3 KiB."""
ENTRIES_PER_BLOCK = 500
"""Entries compressed together; pyiceberg's own writer makes a block of each."""
FORMAT_VERSION: TableVersion = 2
COMPRESSION: AvroCompressionCodec = "deflate"

T = TypeVar("T")


class _Remembered(OrderedDict[str, tuple[int, Sequence[T]]]):
    """What was used last, up to a total weight."""

    def __init__(self, weight_max: int) -> None:
        super().__init__()
        self.weight_max = weight_max
        self.weight = 0

    def recall(self, path: str) -> Sequence[T] | None:
        if path not in self:
            return None
        self.move_to_end(path)
        return self[path][1]

    def keep(self, path: str, weight: int, value: Sequence[T]) -> None:
        self.forget(path)
        if weight > self.weight_max // 4:
            return
        self[path] = (weight, value)
        self.weight += weight
        while self.weight > self.weight_max:
            _, (oldest, _) = self.popitem(last=False)
            self.weight -= oldest

    def forget(self, path: str) -> None:
        weight, _ = self.pop(path, (0, ()))
        self.weight -= weight


class Manifests:
    """Reads the manifests of all tables; used by several threads. What it returns is shared: nobody
    changes it."""

    def __init__(
        self, lists_max: int = REMEMBERED_LISTS, entries_max: int = REMEMBERED_ENTRIES
    ) -> None:
        self._lock = threading.Lock()
        self._lists: _Remembered[ManifestFile] = _Remembered(lists_max)
        self._entries: _Remembered[ManifestEntry] = _Remembered(entries_max)

    def of_snapshot(self, io: FileIO, snapshot: Snapshot | None) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, none without one. FileNotFoundError if it was expired."""
        if snapshot is None:
            return ()
        path = snapshot.manifest_list
        return self._get(
            self._lists, path, lambda: list(read_manifest_list(io.new_input(path))), lambda _: 1
        )

    def live_entries(self, io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of files that are in the table."""
        return self._get(
            self._entries,
            manifest.manifest_path,
            lambda: manifest.fetch_manifest_entry(io, discard_deleted=True),
            len,
        )

    def remember_list(self, path: str, manifests: Sequence[ManifestFile]) -> None:
        """What was written to a manifest list that is committed."""
        with self._lock:
            self._lists.keep(path, 1, manifests)

    def remember_entries(self, path: str, entries: Sequence[ManifestEntry]) -> None:
        """The live entries, with their sequence numbers, of a manifest that is committed."""
        with self._lock:
            self._entries.keep(path, len(entries), entries)

    def forget(self, paths: Iterable[str]) -> None:
        """Files that were deleted."""
        with self._lock:
            for path in paths:
                self._lists.forget(path)
                self._entries.forget(path)

    def _get(
        self,
        remembered: _Remembered[T],
        path: str,
        read: Callable[[], Sequence[T]],
        weight: Callable[[Sequence[T]], int],
    ) -> Sequence[T]:
        with self._lock:
            known = remembered.recall(path)
        if known is not None:
            return known
        value = read()
        with self._lock:
            remembered.keep(path, weight(value), value)
        return value


class _BlockFile(AvroOutputFile[ManifestEntry]):
    """Collects entries and writes them in blocks."""

    _pending: list[ManifestEntry]

    def __enter__(self) -> _BlockFile:
        self._pending = []
        super().__enter__()
        return self

    def write_block(self, objects: list[ManifestEntry]) -> None:
        self._pending += objects
        if len(self._pending) >= ENTRIES_PER_BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            super().write_block(self._pending)
            self._pending = []

    def __exit__(
        self,
        exctype: type[BaseException] | None,
        excinst: BaseException | None,
        exctb: TracebackType | None,
    ) -> None:
        if exctype is None:
            self._flush()
        super().__exit__(exctype, excinst, exctb)


class _BlockWriter(ManifestWriterV2):
    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return _BlockFile(
            output_file=self._output_file,
            file_schema=self._with_partition(self.version),
            record_schema=self._with_partition(DEFAULT_READ_VERSION),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def write_manifest(
    io: FileIO,
    path: str,
    schema: Schema,
    spec: PartitionSpec,
    snapshot_id: int,
    entries: Sequence[ManifestEntry],
) -> ManifestFile:
    """Write a manifest of `entries`, at least one, as they are."""
    writer = _BlockWriter(spec, schema, io.new_output(path), snapshot_id, COMPRESSION)
    with writer:
        for entry in entries:
            writer.add_entry(entry)
    return writer.to_manifest_file()


def write_list(
    io: FileIO,
    path: str,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    manifests: Sequence[ManifestFile],
) -> list[ManifestFile]:
    """Write a manifest list; the manifests with the sequence numbers this gave to new ones."""
    output = io.new_output(path)
    with write_manifest_list(
        FORMAT_VERSION, output, snapshot_id, parent_id, sequence_number, COMPRESSION
    ) as writer:
        numbered = [writer.prepare_manifest(manifest) for manifest in manifests]
        writer.add_manifests(numbered)
    return numbered


def with_status(
    entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None
) -> ManifestEntry:
    """The entry with another status; its sequence numbers stay."""
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
