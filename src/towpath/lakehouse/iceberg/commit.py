"""One request to the catalog per commit, and what its answer means for the files written for it."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from towpath.lakehouse.iceberg import errors
from towpath.lakehouse.iceberg.maintenance import Cleaner, UpkeepSettings, expirable, expiry
from towpath.lakehouse.iceberg.manifests import Manifests
from towpath.lakehouse.iceberg.snapshots import Contents, Draft, SnapshotWriter, fence
from towpath.lakehouse.tables import CommitConflict, CommitUnknown, TableError, TableMissing


class Committer:
    """Changes tables in one catalog. A table that was passed in is not changed: the result is a new
    one, so a late user of the old one fails as it should."""

    def __init__(
        self, catalog: Catalog, manifests: Manifests, cleaner: Cleaner, upkeep: UpkeepSettings
    ) -> None:
        self._catalog = catalog
        self._manifests = manifests
        self._cleaner = cleaner
        self._upkeep = upkeep

    def add_snapshot(self, table: Table, contents: Contents, now_ms: int) -> Table:
        """The table with a new snapshot. Snapshots that are due to go, go with the same commit, so
        that metadata stays small whoever forgets about upkeep."""
        writer = SnapshotWriter(table, self._manifests, now_ms)
        try:
            draft = self._write(table, writer, contents)
            old = expirable(table.metadata, now_ms, self._upkeep)
            changed, _ = self.change(table, (*draft.updates, *expiry(table.metadata, old)))
        except CommitUnknown:
            # The table may name them now: if not, the sweep finds them.
            raise
        except TableError:
            self._cleaner.delete(table.io, writer.written)
            raise
        self._remember(draft)
        return changed

    def change(
        self,
        table: Table,
        updates: tuple[TableUpdate, ...],
        requirements: tuple[TableRequirement, ...] = (),
    ) -> tuple[Table, int]:
        """The changed table, and how many metadata files were deleted because of it. What every
        change requires is required, and `requirements` beside it."""
        try:
            answer = self._catalog.commit_table(
                table, (*fence(table.metadata), *requirements), updates
            )
        except Exception as error:
            raise self._explained(table, errors.of_commit(error)) from error
        changed = Table(
            table.name(),
            answer.metadata,
            answer.metadata_location,
            table.io,
            self._catalog,
            table.config,
        )
        return changed, self._cleaner.after_commit(table.metadata, changed)

    def _write(self, table: Table, writer: SnapshotWriter, contents: Contents) -> Draft:
        try:
            return writer.write(contents)
        except FileNotFoundError as error:
            # Manifests go when their snapshot was expired: the table was loaded long ago.
            conflict = CommitConflict(f"the loaded state is gone: {error}")
            raise self._explained(table, conflict) from error
        except Exception as error:
            raise errors.of_read(error) from error

    def _explained(self, table: Table, error: TableError) -> TableError:
        """Some catalogs call it a conflict if the table is gone."""
        if not isinstance(error, CommitConflict):
            return error
        try:
            current = self._catalog.load_table(table.name())
        except NoSuchTableError:
            return TableMissing(f"{'.'.join(table.name())} was dropped")
        except Exception:  # noqa: BLE001 - the conflict is what matters.
            return error
        if current.metadata.table_uuid != table.metadata.table_uuid:
            return TableMissing(f"{'.'.join(table.name())} was dropped and made again")
        return error

    def _remember(self, draft: Draft) -> None:
        self._manifests.remember_list(draft.snapshot.manifest_list, draft.manifests)
        for path, entries in draft.entries.items():
            self._manifests.remember_entries(path, entries)
