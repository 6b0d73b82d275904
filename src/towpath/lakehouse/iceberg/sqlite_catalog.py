"""pyiceberg's SQL catalog on a SQLite file that several processes use at once."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from sqlalchemy import update
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateTable

BUSY_TIMEOUT_S = 30


class SqliteCatalog(SqlCatalog):
    """Write-ahead logging, a long busy time-out, and tables made by whoever comes first."""

    def __init__(self, name: str, **properties: Any) -> None:
        url = make_url(properties["uri"])
        assert url.database, properties["uri"]
        _prepare(Path(url.database))
        if "timeout" not in url.query:
            url = url.update_query_dict({"timeout": str(BUSY_TIMEOUT_S)})
        properties["uri"] = url.render_as_string(hide_password=False)
        super().__init__(name, **properties)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Apply the updates to exactly the given state of the table, or raise
        CommitFailedException. pyiceberg's own loads the table once more and applies them to that.
        """
        for requirement in requirements:
            requirement.validate(table.metadata)
        metadata = _updated(table, updates)
        version = self._parse_metadata_version(table.metadata_location) + 1
        location = table.location_provider().new_table_metadata_file_location(version)
        self._write_metadata(metadata, table.io, location)
        try:
            self._point_to(location, table)
        except CommitFailedException:
            with contextlib.suppress(OSError):
                table.io.delete(location)
            raise
        return CommitTableResponse.model_construct(metadata=metadata, metadata_location=location)

    def _point_to(self, location: str, table: Table) -> None:
        """One compare-and-set decides between all writers."""
        rows = IcebergTables
        change = (
            update(rows)
            .where(
                rows.catalog_name == self.name,
                rows.table_namespace == self.namespace_to_string(table.name()[:-1]),
                rows.table_name == table.name()[-1],
                rows.metadata_location == table.metadata_location,
            )
            .values(metadata_location=location, previous_metadata_location=table.metadata_location)
        )
        with self.engine.begin() as connection:
            if connection.execute(change).rowcount != 1:
                raise CommitFailedException(f"{'.'.join(table.name())} was changed by others")


def _updated(table: Table, updates: tuple[TableUpdate, ...]) -> TableMetadata:
    """The table's metadata with the updates; the rest of it is shared, since nobody changes it.

    `update_table_metadata` does the same and copies all snapshots, which takes most of a commit.
    """
    context = _TableMetadataUpdateContext()
    metadata = table.metadata
    for change in updates:
        metadata = _apply_table_update(change, metadata, context)
    before_ms = table.metadata.last_updated_ms
    if metadata.last_updated_ms == before_ms:
        now_ms = max(before_ms, time.time_ns() // 1_000_000)
        metadata = metadata.model_copy(update={"last_updated_ms": now_ms})
    return _update_table_metadata_log(metadata, table.metadata_location, before_ms)


def _prepare(path: Path) -> None:
    """Make the file and its tables, if they are missing. pyiceberg looks and then creates, so two
    processes that start together would fail."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        # Kept in the file, so it holds for every later connection.
        connection.execute("PRAGMA journal_mode = WAL")
        for table in (IcebergTables.__table__, IcebergNamespaceProperties.__table__):
            create = CreateTable(table, if_not_exists=True)  # type: ignore[arg-type]
            connection.execute(str(create.compile(dialect=sqlite.dialect())))
    finally:
        connection.close()
