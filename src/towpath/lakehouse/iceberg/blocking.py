"""The tables as they are, in the calling thread: what `tables` runs in other threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.refs import MAIN_BRANCH

from towpath.lakehouse.iceberg import errors, inventory, marks, properties
from towpath.lakehouse.iceberg.catalog import open_catalog
from towpath.lakehouse.iceberg.commit import Committer
from towpath.lakehouse.iceberg.data_files import data_file
from towpath.lakehouse.iceberg.evolve import check_columns, schema_updates
from towpath.lakehouse.iceberg.locations import Locations
from towpath.lakehouse.iceberg.maintenance import Cleaner, expirable, expiry
from towpath.lakehouse.iceberg.manifests import Manifests
from towpath.lakehouse.iceberg.names import aside_name, is_aside_name, table_name
from towpath.lakehouse.iceberg.schema import (
    field_ids,
    is_split_by_day,
    partition_spec,
    table_schema,
)
from towpath.lakehouse.iceberg.settings import IcebergSettings
from towpath.lakehouse.iceberg.snapshots import Contents
from towpath.lakehouse.iceberg.sweep import unreferenced
from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import (
    Change,
    CommitConflict,
    ForeignTable,
    Maintained,
    SupersededTable,
    Table,
    TopicRef,
)
from towpath.runtime import Clock
from towpath.typed.types import Fields


class BlockingTables:
    """All tables of a cluster; several threads may use it at once. Raises TableError only, and
    ValueError for what its caller should know better."""

    def __init__(self, settings: IcebergSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._spec = partition_spec(settings.partitioning)
        self._locations = Locations(settings.objects_root_uri, settings.cluster_prefix)
        self._manifests = Manifests()
        self._cleaner = Cleaner(self._manifests)
        self._opening = threading.Lock()
        self._opened: Catalog | None = None

    def close(self) -> None:
        """Release the catalog."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def load(self, topic: TopicRef) -> Table | None:
        """See `Tables`."""
        found = self._find(self._name(topic))
        return None if found is None else self._checked(topic, found)

    def create(self, topic: TopicRef) -> Table:
        """See `Tables`."""
        try:
            catalog = self._catalog()
            self._make_namespace(catalog)
            made = catalog.create_table(
                self._identifier(self._name(topic)),
                table_schema(),
                self._location(topic),
                self._spec,
                properties=properties.creation_properties(topic, self._settings.cluster_id),
            )
        except TableAlreadyExistsError:
            existing = self.load(topic)
            if existing is None:
                raise CommitConflict(f"{topic.name} was created and dropped by others") from None
            return existing
        except Exception as error:
            raise errors.of_read(error) from error
        return self._checked(topic, made)

    def commit(self, table: Table, change: Change) -> Table:
        """See `Tables`."""
        before = _handle(table)
        _check_marks(table, change)
        all_marks = {**table.marks, **change.marks}
        contents = Contents(
            added=[
                data_file(
                    before.schema(),
                    before.spec(),
                    table.field_ids,
                    self._locations.uri(file.path),
                    partition,
                    file,
                )
                for partition, file in change.added
            ],
            removed=[self._locations.uri(file.path) for _, file in change.removed],
            keeps_rows=not change.changes_rows,
            summary={
                marks.OFFSETS: marks.encode_offsets(all_marks),
                marks.TASKS: marks.encode_tasks(change.marks.values(), table.marks.values()),
            },
            properties={marks.PARTITIONS: marks.encode_marks(all_marks)},
        )
        after = self._committer().add_snapshot(before, contents, self._clock.now_ms())
        return self._table(table.topic, after)

    def evolve(self, table: Table, columns: Fields) -> Table:
        """See `Tables`."""
        before = _handle(table)
        requirements, updates = schema_updates(before.metadata, columns)
        if not updates:
            return table
        after, _ = self._committer().change(before, updates, requirements)
        check_columns(after.metadata.schema(), columns)
        return self._table(table.topic, after)

    def files(self, table: Table) -> list[tuple[int, str]]:
        """See `Tables`."""
        try:
            return inventory.current_paths(_handle(table), self._manifests, self._locations)
        except Exception as error:
            raise errors.of_read(error) from error

    def files_below(
        self, table: Table, offsets: Mapping[int, int]
    ) -> list[tuple[int, ParquetFile]]:
        """See `Tables`."""
        handle = _handle(table)
        try:
            return inventory.files_below(handle, self._manifests, self._locations, offsets)
        except Exception as error:
            raise errors.of_read(error) from error

    def every_file(self, name: str) -> list[str]:
        """See `Tables`. Whose tables they are does not matter: what any of them names is needed."""
        name = table_name(name, safe=self._settings.catalog.has_safe_names)
        paths: set[str] = set()
        for found in map(self._find, (name, *self._aside_names(name))):
            if found is not None:
                try:
                    paths.update(inventory.all_paths(found, self._manifests, self._locations))
                except Exception as error:
                    raise errors.of_read(error) from error
        return sorted(paths)

    def maintain(self, table: Table) -> Maintained:
        """See `Tables`. If somebody changed the table meanwhile, nothing is done this time."""
        before = _handle(table)
        old = expirable(before.metadata, self._clock.now_ms(), self._settings.upkeep)
        if not old:
            return Maintained(table)
        try:
            after, deleted = self._committer().change(before, expiry(before.metadata, old))
        except CommitConflict:
            return Maintained(table)
        return Maintained(self._table(table.topic, after), len(old), deleted)

    def drop(self, topic: TopicRef) -> list[str]:
        """See `Tables`. Finds the table under the name it was set aside with, too."""
        name = self._name(topic)
        for candidate in (name, aside_name(name, topic.number)):
            found = self._find(candidate)
            if found is not None and self._is_of(topic, found):
                return self._drop(found)
        return []

    def set_aside(self, topic: TopicRef) -> str | None:
        """See `Tables`."""
        name = self._name(topic)
        found = self._find(name)
        if found is None:
            return None
        try:
            self._check_owner(topic, found)
            return None
        except SupersededTable as superseded:
            number = superseded.number
        new_name = aside_name(name, number)
        try:
            moved = self._catalog().rename_table(self._identifier(name), self._identifier(new_name))
        except (TableAlreadyExistsError, NoSuchTableError):
            return self._set_aside_by_others(topic, new_name)
        except Exception as error:
            raise errors.of_read(error) from error
        self._check_moved(moved, name, number)
        return new_name

    def metadata_prefix(self, table: Table) -> str | None:
        """Where in the object store the table's metadata files are; None if they are elsewhere."""
        provider = _handle(table).location_provider()
        return self._locations.path(provider.new_metadata_location(""))

    def unreferenced(self, topic: TopicRef, paths: Sequence[str]) -> list[str]:
        """Which of the metadata files are the table's own and named by nothing, right now."""
        found = self._find(self._name(topic))
        if found is None or not self._is_of(topic, found):
            return []
        try:
            return unreferenced(found, self._cleaner, self._locations, paths)
        except Exception as error:
            raise errors.of_read(error) from error

    def _catalog(self) -> Catalog:
        """The catalog, opened when it is first needed and whenever that failed before."""
        with self._opening:
            if self._opened is None:
                self._opened = open_catalog(self._settings.catalog)
            return self._opened

    def _committer(self) -> Committer:
        try:
            catalog = self._catalog()
        except Exception as error:
            raise errors.of_read(error) from error
        return Committer(catalog, self._manifests, self._cleaner, self._settings.upkeep)

    def _name(self, topic: TopicRef) -> str:
        return table_name(topic.name, safe=self._settings.catalog.has_safe_names)

    def _location(self, topic: TopicRef) -> str | None:
        """Where a new table's metadata goes; None leaves it to the catalog."""
        if self._settings.catalog.places_tables:
            return None
        return self._locations.table(topic.name)

    def _identifier(self, name: str) -> tuple[str, ...]:
        return (*self._settings.catalog.namespace_tuple, name)

    def _make_namespace(self, catalog: Catalog) -> None:
        levels = self._settings.catalog.namespace_tuple
        for depth in range(1, len(levels) + 1):
            _make_namespace(catalog, levels[:depth])

    def _find(self, name: str) -> IcebergTable | None:
        try:
            return self._catalog().load_table(self._identifier(name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            raise errors.of_read(error) from error

    def _aside_names(self, name: str) -> list[str]:
        """Tables that were set aside for a topic of this name."""
        try:
            listed = self._catalog().list_tables(self._settings.catalog.namespace_tuple)
        except NoSuchNamespaceError:
            return []
        except Exception as error:
            raise errors.of_read(error) from error
        return [found[-1] for found in listed if is_aside_name(name, found[-1])]

    def _check_owner(self, topic: TopicRef, found: IcebergTable) -> None:
        properties.check_owner(
            found.metadata.properties, _full_name(found), topic, self._settings.cluster_id
        )

    def _is_of(self, topic: TopicRef, found: IcebergTable) -> bool:
        try:
            self._check_owner(topic, found)
            return True
        except ForeignTable:
            return False

    def _checked(self, topic: TopicRef, found: IcebergTable) -> Table:
        self._check_owner(topic, found)
        return self._table(topic, found)

    def _table(self, topic: TopicRef, found: IcebergTable) -> Table:
        metadata = found.metadata
        head = metadata.snapshot_by_name(MAIN_BRANCH)
        kept = [snapshot.sequence_number or 0 for snapshot in metadata.snapshots]
        return Table(
            topic=topic,
            identifier=_full_name(found),
            field_ids=field_ids(metadata.schema()),
            marks=marks.decode_marks(metadata.properties.get(marks.PARTITIONS)),
            snapshot_id=None if head is None else head.snapshot_id,
            sequence_number=metadata.next_sequence_number() - 1,
            oldest_sequence_number=min(kept, default=0),
            split_by_day=is_split_by_day(metadata.spec()),
            handle=found,
            last_field_id=metadata.last_column_id,
        )

    def _drop(self, found: IcebergTable) -> list[str]:
        try:
            files = inventory.all_paths(found, self._manifests, self._locations)
            unneeded = self._cleaner.referenced(found)
            self._catalog().drop_table(found.name())
        except NoSuchTableError:
            return []
        except Exception as error:
            raise errors.of_read(error) from error
        self._cleaner.delete(found.io, unneeded)
        return files

    def _set_aside_by_others(self, topic: TopicRef, name: str) -> str:
        """Somebody else was faster, or the name is taken by another table."""
        found = self._find(self._name(topic))
        if found is None or self._is_of(topic, found):
            return name
        raise ForeignTable(f"{name} exists: {_full_name(found)} cannot be set aside")

    def _check_moved(self, moved: IcebergTable, name: str, number: int) -> None:
        """Catalogs rename by name: between look and rename it may have become another table."""
        if properties.topic_number(moved.metadata.properties) == number:
            return
        try:
            self._catalog().rename_table(moved.name(), self._identifier(name))
        except Exception as error:
            raise errors.of_read(error) from error
        raise CommitConflict(f"{name} changed while it was set aside")


def _make_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    if catalog.namespace_exists(namespace):
        return
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return
    except Exception:
        # Two SQL catalogs at once: the second finds the first one's row.
        if not catalog.namespace_exists(namespace):
            raise


def _handle(table: Table) -> IcebergTable:
    assert isinstance(table.handle, IcebergTable), table
    return table.handle


def _full_name(found: IcebergTable) -> str:
    return ".".join(found.name())


def _check_marks(table: Table, change: Change) -> None:
    """A mark never goes back: whoever asks for that has planned on something else."""
    for partition, mark in change.marks.items():
        if mark.end < table.mark(partition).end:
            raise ValueError(
                f"partition {partition} of {table.identifier} has come to "
                f"{table.mark(partition).end} and cannot go back to {mark.end}"
            )
