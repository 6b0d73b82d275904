"""A compactor's way to the catalog: the product's `Tables` on the shared catalog, over a line that
fails.

A commit may be applied without an answer, lost on its way, or arrive late, when its parent may not
be the current snapshot any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tests.faults.simulation.catalog import SharedCatalog, TableState
from tests.faults.simulation.chance import Chance
from tests.faults.simulation.line import Line
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.rates import Rates

from towpath.lakehouse.plan import ParquetFile
from towpath.lakehouse.tables import (
    CatalogUnavailable,
    Change,
    CommitConflict,
    CommitUnknown,
    Maintained,
    SupersededTable,
    Table,
    Tables,
    TopicRef,
)
from towpath.records.table import DEFAULT_FIELD_IDS
from towpath.typed.types import Fields

T = TypeVar("T")


class SimTables(Tables):
    """One compactor's client of the shared catalog."""

    def __init__(
        self,
        loop: SimLoop,
        node: Node,
        catalog: SharedCatalog,
        rates: Rates,
        chance: Chance,
        *,
        split_by_day: bool,
    ) -> None:
        self._loop = loop
        self._catalog = catalog
        self._split_by_day = split_by_day
        self.line = Line(
            loop, node, chance, lambda: rates.catalog, CatalogUnavailable, CommitUnknown
        )
        self.on_commit: Callable[[], None] = lambda: None
        """Called when a commit is about to leave."""

    async def load(self, topic: TopicRef) -> Table | None:
        def find() -> Table | None:
            found = self._catalog.find(topic.name)
            if found is None:
                return None
            if found.topic.number != topic.number:
                raise SupersededTable(topic.name, found.topic.number)
            return self._seen(found)

        return await self._ask("load table", find)

    async def create(self, topic: TopicRef) -> Table:
        return await self._ask(
            "create table", lambda: self._seen(self._catalog.create(topic)), changes=True
        )

    async def commit(self, table: Table, change: Change) -> Table:
        self.on_commit()
        return await self._call(
            "commit", lambda: self._seen(self._catalog.apply(_state(table), change)), changes=True
        )

    async def evolve(self, table: Table, columns: Fields) -> Table:
        return await self._call(
            "evolve", lambda: self._seen(self._catalog.evolve(_state(table), columns)), changes=True
        )

    async def files(self, table: Table) -> list[tuple[int, str]]:
        return await self._ask(
            "list files",
            lambda: [(partition, path) for path, (partition, _) in _state(table).files.items()],
        )

    async def files_below(
        self, table: Table, offsets: Mapping[int, int]
    ) -> list[tuple[int, ParquetFile]]:
        return await self._ask(
            "list files below",
            lambda: [
                (partition, file)
                for partition, file in _state(table).files.values()
                if file.last_offset < offsets.get(partition, 0)
            ],
        )

    async def every_file(self, name: str) -> list[str]:
        def find() -> list[str]:
            found = self._catalog.find(name)
            snapshots = found.snapshots if found is not None else ()
            return sorted({path for snapshot in snapshots for path in snapshot.files})

        return await self._ask("list every file", find)

    async def maintain(self, table: Table) -> Maintained:
        def expire() -> Maintained:
            try:
                after, expired = self._catalog.expire(_state(table))
            except CommitConflict:
                return Maintained(table)
            return Maintained(self._seen(after), expired)

        return await self._call("expire snapshots", expire, changes=True)

    async def drop(self, topic: TopicRef) -> list[str]:
        def drop() -> list[str]:
            found = self._catalog.find(topic.name)
            if found is None or found.topic.number != topic.number:
                return []
            return sorted(self._catalog.drop(topic.name))

        return await self._ask("drop table", drop, changes=True)

    async def _ask(self, what: str, effect: Callable[[], T], *, changes: bool = False) -> T:
        """A call whose lost answer is an error like any other."""
        try:
            return await self._call(what, effect, changes=changes)
        except CommitUnknown as error:
            raise CatalogUnavailable(str(error)) from error

    async def _call(self, what: str, effect: Callable[[], T], *, changes: bool) -> T:
        def arrive() -> T:
            if self._loop.time() < self._catalog.gone_until_s:
                raise CatalogUnavailable("the simulated catalog is gone")
            return effect()

        return await self.line.call(what, arrive, changes=changes)

    def _seen(self, found: TableState) -> Table:
        numbers = [snapshot.sequence_number for snapshot in found.snapshots]
        return Table(
            topic=found.topic,
            identifier=f"simulated.{found.topic.name}",
            field_ids=DEFAULT_FIELD_IDS,
            marks=found.marks,
            snapshot_id=found.snapshot_id,
            sequence_number=max(numbers, default=0),
            oldest_sequence_number=min(numbers, default=0),
            split_by_day=self._split_by_day,
            handle=found,
        )


def _state(table: Table) -> TableState:
    assert isinstance(table.handle, TableState)
    return table.handle
