"""Tables of a catalog in an SQLite file, which is the default: its rows are read as they are."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.errors import CliError
from towpath.cli.table_catalog import CatalogPlace, TableCatalog
from towpath.cli.table_document import TableDocument
from towpath.metadata.sqlite.read_only import read_sqlite
from towpath.metadata.store import StoreUnavailable

if TYPE_CHECKING:
    from pyiceberg.table import Table

GZIP_SUFFIX = ".gz.metadata.json"


class SqliteTables(TableCatalog):
    """The rows are those that the Iceberg libraries for Python and Java share."""

    def __init__(self, place: CatalogPlace, file: Path) -> None:
        if not file.exists():
            raise CliError(f"no tables yet: {file} does not exist")
        self._place = place
        try:
            self._locations = read_sqlite(file, self._rows)
        except StoreUnavailable as error:
            raise CliError(str(error)) from error

    def names(self) -> list[str]:
        return sorted(self._locations)

    def document(self, name: str) -> TableDocument:
        location = self._locations[name]
        try:
            fields = json.loads(self._read(location))
        except (OSError, ValueError) as error:
            raise CliError(f"cannot read the metadata of table {name}: {error}") from error
        return TableDocument(self._place.namespace, name, location, fields)

    def open(self, document: TableDocument) -> Table:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.io import load_file_io
        from pyiceberg.table import Table
        from pyiceberg.table.metadata import TableMetadataUtil

        return Table(
            identifier=(*document.namespace, document.name),
            metadata=TableMetadataUtil.parse_obj(dict(document.fields)),
            metadata_location=document.metadata_file,
            io=load_file_io(dict(self._place.properties), document.metadata_file),
            catalog=NoopCatalog(self._place.name),
        )

    def _rows(self, connection: sqlite3.Connection) -> dict[str, str]:
        connection.row_factory = sqlite3.Row
        known = "SELECT count(*) FROM sqlite_master WHERE name = 'iceberg_tables'"
        if connection.execute(known).fetchone()[0] == 0:
            return {}
        query = "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?"
        where = (self._place.name, ".".join(self._place.namespace))
        found = [dict(row) for row in connection.execute(query, where)]
        return {
            row["table_name"]: row["metadata_location"]
            for row in found
            # The column is missing in the oldest form of these catalogs, which have no views.
            if row["metadata_location"] and (row.get("iceberg_type") or "TABLE") == "TABLE"
        }

    def _read(self, location: str) -> bytes:
        if location.startswith("file:/"):
            raw = Path("/" + location.removeprefix("file:").lstrip("/")).read_bytes()
        else:
            from pyiceberg.io import load_file_io

            io = load_file_io(dict(self._place.properties), location)
            with io.new_input(location).open() as stream:
                raw = stream.read()
        return gzip.decompress(raw) if location.endswith(GZIP_SUFFIX) else raw
