"""The catalog that outlives all compactors: tables with snapshots, as Iceberg keeps them.

A change is applied to exactly the state it was made for, or not at all. Every snapshot is judged
when it is made, and the files that kept snapshots name are known when an object is to be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from tests.faults.simulation.clock import SimClock
from tests.faults.simulation.table_ledger import TableLedger
from tests.faults.simulation.table_scenario import History

from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import Change, CommitConflict, Mark, TableMissing, TopicRef
from towpath.typed.types import Field, Fields

Files = Mapping[str, tuple[int, ParquetFile]]
"""Partition and file by path."""


@dataclass(frozen=True, slots=True)
class SimSnapshot:
    """One snapshot: everything the table held."""

    snapshot_id: int
    sequence_number: int
    made_at_ms: int
    operation: str
    files: Files = field(hash=False)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one moment, as a catalog gives it to a client."""

    topic: TopicRef
    incarnation: int
    """Tells it from a table of the same name that was dropped before."""
    marks: Mapping[int, Mark] = field(default_factory=dict, hash=False)
    snapshots: tuple[SimSnapshot, ...] = ()
    """Those that are kept, oldest first."""
    columns: Mapping[int, Field] = field(default_factory=dict, hash=False)
    """Typed columns by id."""

    @property
    def snapshot_id(self) -> int | None:
        """The current snapshot, None without any."""
        return self.snapshots[-1].snapshot_id if self.snapshots else None

    @property
    def files(self) -> Files:
        """What the table holds."""
        return self.snapshots[-1].files if self.snapshots else {}


class SharedCatalog:
    """All tables."""

    def __init__(self, clock: SimClock, ledger: TableLedger, history: History) -> None:
        self._clock = clock
        self._ledger = ledger
        self._history = history
        self._numbers = count(1)
        self.tables: dict[str, TableState] = {}
        self.gone_until_s = 0.0
        """Until then it answers nobody."""

    def find(self, name: str) -> TableState | None:
        """The table as it is now."""
        return self.tables.get(name)

    def create(self, topic: TopicRef) -> TableState:
        """A new table; the one that is there, if there is one."""
        if topic.name not in self.tables:
            self.tables[topic.name] = TableState(topic, next(self._numbers))
            self._ledger.created(topic)
        return self.tables[topic.name]

    def apply(self, loaded: TableState, change: Change) -> TableState:
        """Apply a change to the loaded state; raises CommitConflict or TableMissing."""
        present = self._present(loaded)
        files = dict(present.files)
        for _, file in change.removed:
            if files.pop(file.path, None) is None:
                raise CommitConflict(f"{file.path} is not in {loaded.topic.name}")
        for partition, file in change.added:
            self._ledger.adding(loaded.topic, file.path, already=file.path in files)
            files[file.path] = (partition, file)
        marks = {**present.marks, **change.marks}
        changed = self._with_snapshot(present, marks, operation(change), files)
        self._ledger.committed(loaded.topic, present.marks, marks, changed.snapshots[-1])
        return changed

    def evolve(self, loaded: TableState, columns: Fields) -> TableState:
        """Give the loaded state typed columns; raises as `apply`."""
        present = self._present(loaded)
        known = {**present.columns, **{column.id: column for column in columns}}
        state = self.tables[loaded.topic.name] = replace(present, columns=known)
        return state

    def expire(self, loaded: TableState) -> tuple[TableState, int]:
        """Expire old snapshots of the loaded state, and tell how many; raises as `apply`."""
        present = self._present(loaded)
        kept = self._kept(present.snapshots)
        expired = len(present.snapshots) - len(kept)
        state = replace(present, snapshots=kept)
        self.tables[loaded.topic.name] = state
        return state, expired

    def foreign_commit(self, name: str) -> None:
        """Somebody else makes a snapshot, of something that this project knows nothing of."""
        present = self.tables[name]
        self._with_snapshot(present, present.marks, "append", present.files)

    def drop(self, name: str) -> set[str]:
        """Drop a table; the files that its snapshots named."""
        gone = self.tables.pop(name)
        return {path for snapshot in gone.snapshots for path in snapshot.files}

    def naming(self, path: str) -> str | None:
        """A table that has a kept snapshot with this file."""
        for name, table in self.tables.items():
            if any(path in snapshot.files for snapshot in table.snapshots):
                return name
        return None

    def named_files(self) -> set[str]:
        """Every file that a kept snapshot of any table names."""
        return {
            path
            for table in self.tables.values()
            for snapshot in table.snapshots
            for path in snapshot.files
        }

    def _present(self, loaded: TableState) -> TableState:
        """The table now, if nobody has changed it since it was loaded."""
        name = loaded.topic.name
        present = self.tables.get(name)
        if present is None or present.incarnation != loaded.incarnation:
            raise TableMissing(f"{name} was dropped")
        if present.snapshot_id != loaded.snapshot_id:
            raise CommitConflict(f"{name} is at {present.snapshot_id}, not {loaded.snapshot_id}")
        return present

    def _with_snapshot(
        self, table: TableState, marks: Mapping[int, Mark], name: str, files: Files
    ) -> TableState:
        last = table.snapshots[-1].sequence_number if table.snapshots else 0
        snapshot = SimSnapshot(
            next(self._numbers), last + 1, self._clock.now_ms(), name, dict(files)
        )
        snapshots = self._kept((*table.snapshots, snapshot))
        state = replace(table, marks=marks, snapshots=snapshots)
        self.tables[table.topic.name] = state
        return state

    def _kept(self, snapshots: tuple[SimSnapshot, ...]) -> tuple[SimSnapshot, ...]:
        history, now_ms = self._history, self._clock.now_ms()

        def is_kept(rank: int, age_ms: int) -> bool:
            if rank == 0:
                return True
            if rank >= history.snapshots_max or age_ms >= history.final_age_ms:
                return False
            return rank < history.snapshots_min or age_ms < history.max_age_ms

        newest_first = enumerate(reversed(snapshots))
        kept = [one for rank, one in newest_first if is_kept(rank, now_ms - one.made_at_ms)]
        return tuple(reversed(kept))


def operation(change: Change) -> str:
    """What Iceberg calls the change."""
    if not change.removed:
        return "append"
    if not change.changes_rows:
        return "replace"
    return "overwrite" if change.added else "delete"
