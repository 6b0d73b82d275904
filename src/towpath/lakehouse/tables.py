"""Topics' tables as the pipeline sees them; `iceberg/` implements it on pyiceberg.

The table fences itself: each commit sets, together with its files, how far every partition has
come and by which task, and asserts the snapshot it was planned on. A process that wakes up late
therefore fails with `CommitConflict`, looks again, and finds its range taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.lakehouse.plan import ParquetFile
from towpath.objects.store import ObjectInfo
from towpath.typed.types import Fields


class TableError(Exception):
    """Something is wrong with a table or its catalog."""


class CatalogUnavailable(TableError):
    """The catalog did not answer a read, or refused a write for sure: nothing was changed."""


class CommitConflict(TableError):
    """Somebody else changed the table since it was loaded: nothing was changed."""


class CommitUnknown(TableError):
    """The answer to a commit was lost: it may have been applied or not. Load and look."""


class TableMissing(TableError):
    """The table was dropped since it was loaded."""


class ForeignTable(TableError):
    """A table of this name exists that is not the topic's: it is never touched."""


class SupersededTable(ForeignTable):
    """The table of an earlier topic of the same name: `set_aside` makes room for the new one."""

    def __init__(self, identifier: str, number: int) -> None:
        super().__init__(f"{identifier} belongs to an earlier topic of this name, number {number}")
        self.number = number


@dataclass(frozen=True, slots=True)
class TopicRef:
    """Which topic a table belongs to."""

    name: str
    number: int
    """Never reused, so a topic created again under the same name is another one."""
    topic_id: str


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a partition has come: every committed offset below `end` is in the table, or was
    removed from the log."""

    end: int
    task_id: str
    """The task whose commit brought it there: how an unclear commit is recognised."""
    rewrite_id: str = ""
    """The last task that replaced files of the partition."""


NO_MARK = Mark(0, "")


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was when it was loaded. `handle` belongs to the implementation."""

    topic: TopicRef
    identifier: str
    """Namespace and name, as people write it."""
    field_ids: Mapping[str, int] = field(hash=False)
    marks: Mapping[int, Mark] = field(hash=False)
    """By partition."""
    snapshot_id: int | None
    sequence_number: int
    """Of the last snapshot; grows with every commit that makes one."""
    oldest_sequence_number: int
    """Of the oldest snapshot that is kept: a file that left the table at a later or equal one is
    needed by nobody before it. 0 without snapshots."""
    split_by_day: bool
    handle: object = field(hash=False, compare=False, repr=False)
    last_field_id: int = 0
    """The greatest id that any column of the table ever had."""

    def mark(self, partition: int) -> Mark:
        """The partition's mark; zero for one that has none yet."""
        return self.marks.get(partition, NO_MARK)


@dataclass(frozen=True, slots=True)
class Change:
    """One commit: files by partition that come and go, and the marks it sets (others stay).

    `changes_rows` tells whether the table's rows differ afterwards: without it, files that are
    replaced make a REPLACE snapshot, which streaming readers pass over; with it an OVERWRITE, or a
    DELETE when none is added. Without removed files it is an APPEND.
    """

    marks: Mapping[int, Mark] = field(hash=False)
    added: Sequence[tuple[int, ParquetFile]] = ()
    removed: Sequence[tuple[int, ParquetFile]] = ()
    changes_rows: bool = True


@dataclass(frozen=True, slots=True)
class Maintained:
    """What upkeep did to a table."""

    table: Table
    expired_snapshots: int = 0
    deleted_metadata_files: int = 0


class Tables(ABC):
    """All tables of the cluster. Calls may take seconds; each raises TableError."""

    @abstractmethod
    async def load(self, topic: TopicRef) -> Table | None:
        """The topic's table as it is now; None if there is none. Raises ForeignTable, and
        SupersededTable if it is that of an earlier topic of the same name."""

    @abstractmethod
    async def create(self, topic: TopicRef) -> Table:
        """Create the topic's table; if somebody else just did, that one."""

    @abstractmethod
    async def commit(self, table: Table, change: Change) -> Table:
        """Apply the change to exactly the loaded state, or nothing of it. Never retried inside.

        Raises CommitConflict, CommitUnknown, TableMissing or CatalogUnavailable. A removed file
        that is not in the table is a CommitConflict.
        """

    @abstractmethod
    async def evolve(self, table: Table, columns: Fields) -> Table:
        """Give the loaded state of the table these columns, under their ids; the same table if it
        has them. Other columns stay, whatever they are called then. Raises as `commit` does."""

    @abstractmethod
    async def files(self, table: Table) -> list[tuple[int, str]]:
        """Partition and path (in the object store) of every data file of the current snapshot."""

    @abstractmethod
    async def files_below(
        self, table: Table, offsets: Mapping[int, int]
    ) -> list[tuple[int, ParquetFile]]:
        """Partition and file of every data file of the current snapshot that holds nothing but
        records below its partition's offset; partitions that are not named are left out."""

    @abstractmethod
    async def every_file(self, name: str) -> list[str]:
        """Every data file (in the object store) that any snapshot names, of the table of this
        name and of those of earlier topics of the name that were set aside."""

    @abstractmethod
    async def maintain(self, table: Table) -> Maintained:
        """Expire old snapshots and delete the metadata files nobody needs any more."""

    async def set_aside(self, topic: TopicRef) -> str | None:
        """Rename the table of an earlier topic of this name, so that the topic can have its own.

        The old table's new name, `<topic>__<number>`; None if there is nothing in the way.
        """
        return None

    @abstractmethod
    async def drop(self, topic: TopicRef) -> list[str]:
        """Drop a deleted topic's table; the data files (in the object store) that any snapshot
        named. An empty list if there is no such table."""

    async def sweep_metadata(
        self,
        table: Table,
        list_objects: Callable[[str], AsyncIterator[ObjectInfo]],
        delete: Callable[[str], Awaitable[None]],
    ) -> int:
        """Delete old metadata files of the table that nothing names; how many. The functions are
        the object store's `list` and `delete`."""
        return 0

    async def close(self) -> None:
        """Release what the catalog holds."""
        return
