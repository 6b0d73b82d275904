"""The data files of a table's current snapshot, from its manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.cli.errors import CliError
from towpath.lakehouse.tables import TableError

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class FileReport:
    """One data file. Offsets and times are those of its records, the last ones inclusive."""

    partition: int
    path: str
    rows: int
    size_bytes: int
    first_offset: int
    last_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int


def report_files(table: Table) -> list[FileReport]:
    """Every data file by partition and offset. Raises CliError if it cannot tell, which is so for
    tables of others."""
    name = ".".join(table.name())
    try:
        return _files(table)
    except TableError as error:
        raise CliError(f"{name}: {error}") from error
    except Exception as error:
        from towpath.lakehouse.iceberg import errors

        raise CliError(f"cannot read the files of {name}: {errors.of_read(error)}") from error


def _files(table: Table) -> list[FileReport]:
    from towpath.lakehouse.iceberg.data_files import parquet_file
    from towpath.lakehouse.iceberg.inventory import live_files
    from towpath.lakehouse.iceberg.manifests import Manifests

    schema, specs = table.schema(), table.specs()
    found = []
    for partition, file in live_files(table, Manifests()):
        known = parquet_file(schema, specs[file.spec_id], file.file_path, file)
        if partition is None or known is None:
            raise TableError(f"{file.file_path} was not written by Towpath")
        found.append(
            FileReport(
                partition,
                known.path,
                known.record_count,
                known.size_bytes,
                known.first_offset,
                known.last_offset,
                known.min_timestamp_ms,
                known.max_timestamp_ms,
            )
        )
    return sorted(found, key=lambda file: (file.partition, file.first_offset, file.path))
