"""Which data files a table names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from towpath.lakehouse.iceberg.data_files import parquet_file, partition_of
from towpath.lakehouse.iceberg.locations import Locations
from towpath.lakehouse.iceberg.manifests import Manifests
from towpath.lakehouse.iceberg.schema import field_ids
from towpath.lakehouse.plan import ParquetFile


def live_files(table: Table, manifests: Manifests) -> Iterator[tuple[int | None, DataFile]]:
    """The data files of the current snapshot, each with its topic's partition."""
    metadata = table.metadata
    specs, ids = metadata.specs(), field_ids(metadata.schema())
    for manifest in manifests.of_snapshot(table.io, metadata.snapshot_by_name(MAIN_BRANCH)):
        if manifest.content == ManifestContent.DATA:
            spec = specs[manifest.partition_spec_id]
            for entry in manifests.live_entries(table.io, manifest):
                yield partition_of(spec, ids, entry.data_file.partition), entry.data_file


def current_paths(
    table: Table, manifests: Manifests, locations: Locations
) -> list[tuple[int, str]]:
    """Partition and path of the current snapshot's data files, as far as they are in our store."""
    found = []
    for partition, file in live_files(table, manifests):
        path = locations.path(file.file_path)
        if path is not None and partition is not None:
            found.append((partition, path))
    return found


def files_below(
    table: Table, manifests: Manifests, locations: Locations, offsets: Mapping[int, int]
) -> list[tuple[int, ParquetFile]]:
    """Data files of the given partitions all of whose records are below the partition's offset."""
    schema, specs = table.schema(), table.specs()
    found = []
    for partition, file in live_files(table, manifests):
        path = locations.path(file.file_path)
        if path is None or partition is None or partition not in offsets:
            continue
        described = parquet_file(schema, specs[file.spec_id], path, file)
        if described is not None and described.last_offset < offsets[partition]:
            found.append((partition, described))
    return found


def all_paths(table: Table, manifests: Manifests, locations: Locations) -> list[str]:
    """Paths of the data files that any snapshot names, also as removed ones."""
    unique: dict[str, ManifestFile] = {}
    for snapshot in table.metadata.snapshots:
        for manifest in manifests.of_snapshot(table.io, snapshot):
            unique.setdefault(manifest.manifest_path, manifest)
    paths = {
        locations.path(entry.data_file.file_path)
        for manifest in unique.values()
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    return sorted(path for path in paths if path is not None)
