"""The typed columns of topics: remembered in the metadata store, and brought into the tables.

First the record of the columns is changed by compare-and-set, so that every process gives a column
the same id for ever; then the table gets what it lacks. Each step may be repeated, and a process
that comes late finds that there is nothing left to do. Files are written after both.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from towpath.lakehouse.publish import Publisher
from towpath.lakehouse.tables import Table, TableError, TopicRef
from towpath.metadata.keys import value_columns as keys
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import ABSENT, MetadataStore, OutcomeUnknown, VersionConflict
from towpath.typed.columns import TypedColumns, typed_columns
from towpath.typed.declaration import Declaration
from towpath.typed.ids import KnownColumns
from towpath.typed.infer import united
from towpath.typed.types import Fields

ATTEMPTS = 20

logger = structlog.get_logger(__name__)


class ColumnsContended(Exception):
    """Others kept changing the record of the columns: the topic is tried again in a later round."""


class ValueColumns:
    """Prepares topics for jobs that write typed columns."""

    def __init__(self, store: MetadataStore, publisher: Publisher) -> None:
        self._store = store
        self._publisher = publisher

    async def table(
        self, topic: TopicRef, declaration: Declaration | None
    ) -> tuple[Table, TypedColumns | None]:
        """The topic's table, and the columns that its values become if it declares them; raises as
        `prepare` does."""
        if declaration is None:
            return await self._publisher.table(topic), None
        typed = await self.prepare(topic, declaration)
        return await self._publisher.table(topic), typed

    async def prepare(
        self, topic: TopicRef, declaration: Declaration, found: Fields = ()
    ) -> TypedColumns:
        """The columns of the declaration, with ids, when the table has them. `found` are columns
        that a job inferred: where they contradict what is known they are left out. Raises
        TableError, MetadataError and ColumnsContended."""
        typed = await self._remember(topic, declaration, found)
        await self._publisher.require(topic, typed.all_fields)
        return typed

    async def _remember(
        self, topic: TopicRef, declaration: Declaration, found: Fields
    ) -> TypedColumns:
        key = keys.value_columns(topic.number)
        for _ in range(ATTEMPTS):
            row = await self._store.get(key)
            known = _decoded(topic, row.value) if row is not None else KnownColumns()
            wanted = replace(known, inferred=united(known.inferred, found)) if found else known
            typed, after = typed_columns(declaration, wanted)
            if after == known:
                return typed
            # Others may have added columns of their own: the new ones' ids lie above those.
            table = await self._publisher.look(topic)
            typed, after = typed_columns(declaration, wanted, table.last_field_id)
            try:
                expect = row.version if row is not None else ABSENT
                await self._store.put(key, keys.encode(after), expect=expect)
            except (VersionConflict, OutcomeUnknown):
                continue
            names = [field.name for field in after.columns[len(known.columns) :]]
            logger.info("new columns", topic=topic.name, columns=names)
            return typed
        raise ColumnsContended(f"{topic.name}: the columns are being changed by others")


def _decoded(topic: TopicRef, value: bytes) -> KnownColumns:
    """What is known; a record that this release cannot read stops its topic only."""
    try:
        return keys.decode(value)
    except UnknownValueVersion as error:
        raise TableError(f"{topic.name}: {error}") from error
