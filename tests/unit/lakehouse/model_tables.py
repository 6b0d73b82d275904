"""A model of an Iceberg catalog: tables with snapshots in memory, the same promises, no files.

Several `ModelTables` may share one `ModelCatalog`, as several processes share a catalog. `strike`
decides what goes wrong before and after each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import (
    Change,
    CommitConflict,
    Maintained,
    Mark,
    SupersededTable,
    Table,
    TableMissing,
    Tables,
    TopicRef,
)
from towpath.records.table import DEFAULT_FIELD_IDS
from towpath.typed.types import Field, Fields

Strike = Callable[[str], None]
"""Called as `load`, `create`, `evolve`, `commit` and `commit-applied`; raises what shall go wrong
there."""


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    snapshot_id: int
    sequence_number: int
    operation: str
    files: Mapping[str, tuple[int, ParquetFile]] = field(hash=False)


@dataclass(slots=True)
class ModelTable:
    """One table; `incarnation` tells it from one dropped before."""

    incarnation: int
    topic: TopicRef
    marks: dict[int, Mark] = field(default_factory=dict)
    snapshots: list[ModelSnapshot] = field(default_factory=list)
    columns: dict[int, Field] = field(default_factory=dict)
    """Typed columns by id, as they were last asked for."""

    @property
    def files(self) -> Mapping[str, tuple[int, ParquetFile]]:
        return self.snapshots[-1].files if self.snapshots else {}

    @property
    def snapshot_id(self) -> int | None:
        return self.snapshots[-1].snapshot_id if self.snapshots else None


class ModelCatalog:
    """What all processes share."""

    def __init__(self) -> None:
        self.tables: dict[str, ModelTable] = {}
        self._numbers = count(1)

    def create(self, topic: TopicRef) -> None:
        if topic.name not in self.tables:
            self.tables[topic.name] = ModelTable(next(self._numbers), topic)

    def foreign_append(self, name: str) -> None:
        """Somebody else's commit that this project knows nothing of."""
        table = self.tables[name]
        self._snapshot(table, "append", dict(table.files))

    def apply(self, name: str, incarnation: int, parent: int | None, change: Change) -> None:
        table = self.tables.get(name)
        if table is None or table.incarnation != incarnation:
            raise TableMissing(name)
        if table.snapshot_id != parent:
            raise CommitConflict(f"{name}: parent is {table.snapshot_id}, not {parent}")
        files = dict(table.files)
        for _, file in change.removed:
            if files.pop(file.path, None) is None:
                raise CommitConflict(f"{file.path} is not in {name}")
        for partition, file in change.added:
            assert file.path not in files, f"{file.path} would be in {name} twice"
            files[file.path] = (partition, file)
        table.marks.update(change.marks)
        self._snapshot(table, operation(change), files)

    def _snapshot(
        self, table: ModelTable, name: str, files: Mapping[str, tuple[int, ParquetFile]]
    ) -> None:
        number = table.snapshots[-1].sequence_number + 1 if table.snapshots else 1
        table.snapshots.append(ModelSnapshot(next(self._numbers), number, name, files))


def operation(change: Change) -> str:
    if not change.removed:
        return "append"
    if not change.changes_rows:
        return "replace"
    return "overwrite" if change.added else "delete"


class ModelTables(Tables):
    """One process's view of the catalog."""

    def __init__(
        self,
        catalog: ModelCatalog,
        strike: Strike = lambda step: None,
        *,
        keep_snapshots: int = 3,
        split_by_day: bool = False,
    ) -> None:
        self.catalog = catalog
        self.strike = strike
        self._keep_snapshots = keep_snapshots
        self._split_by_day = split_by_day

    async def load(self, topic: TopicRef) -> Table | None:
        self.strike("load")
        found = self.catalog.tables.get(topic.name)
        if found is None:
            return None
        if found.topic.number != topic.number:
            raise SupersededTable(topic.name, found.topic.number)
        return self._seen(found)

    async def create(self, topic: TopicRef) -> Table:
        self.strike("create")
        self.catalog.create(topic)
        loaded = await self.load(topic)
        assert loaded is not None
        return loaded

    async def commit(self, table: Table, change: Change) -> Table:
        self.strike("commit")
        assert isinstance(table.handle, int)
        self.catalog.apply(table.topic.name, table.handle, table.snapshot_id, change)
        self.strike("commit-applied")
        return self._seen(self.catalog.tables[table.topic.name])

    async def evolve(self, table: Table, columns: Fields) -> Table:
        self.strike("evolve")
        assert isinstance(table.handle, int)
        found = self.catalog.tables.get(table.topic.name)
        if found is None or found.incarnation != table.handle:
            raise TableMissing(table.topic.name)
        found.columns.update({column.id: column for column in columns})
        return self._seen(found)

    async def files(self, table: Table) -> list[tuple[int, str]]:
        self.strike("load")
        found = self.catalog.tables[table.topic.name]
        return [(partition, path) for path, (partition, _) in found.files.items()]

    async def files_below(
        self, table: Table, offsets: Mapping[int, int]
    ) -> list[tuple[int, ParquetFile]]:
        found = self.catalog.tables[table.topic.name]
        return [
            (partition, file)
            for partition, file in found.files.values()
            if file.last_offset < offsets.get(partition, 0)
        ]

    async def every_file(self, name: str) -> list[str]:
        self.strike("load")
        return [
            path
            for found, table in self.catalog.tables.items()
            if found == name or found.startswith(f"{name}__")
            for snapshot in table.snapshots
            for path in snapshot.files
        ]

    async def maintain(self, table: Table) -> Maintained:
        found = self.catalog.tables[table.topic.name]
        expired = max(0, len(found.snapshots) - self._keep_snapshots)
        del found.snapshots[:expired]
        return Maintained(self._seen(found), expired)

    async def set_aside(self, topic: TopicRef) -> str | None:
        found = self.catalog.tables.get(topic.name)
        if found is None or found.topic.number == topic.number:
            return None
        name = f"{topic.name}__{found.topic.number}"
        self.catalog.tables[name] = self.catalog.tables.pop(topic.name)
        return name

    async def drop(self, topic: TopicRef) -> list[str]:
        found = self.catalog.tables.get(topic.name)
        if found is None or found.topic.number != topic.number:
            return []
        del self.catalog.tables[topic.name]
        return sorted({path for snapshot in found.snapshots for path in snapshot.files})

    def _seen(self, found: ModelTable) -> Table:
        return Table(
            topic=found.topic,
            identifier=f"model.{found.topic.name}",
            field_ids=DEFAULT_FIELD_IDS,
            marks=dict(found.marks),
            snapshot_id=found.snapshot_id,
            sequence_number=found.snapshots[-1].sequence_number if found.snapshots else 0,
            oldest_sequence_number=found.snapshots[0].sequence_number if found.snapshots else 0,
            split_by_day=self._split_by_day,
            handle=found.incarnation,
        )
